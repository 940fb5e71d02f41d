// A durable handler of three steps for Restate, served as its documents say; the port comes with the environment.
import { createRequire } from "node:module";
const restate = createRequire(process.env.RESTATE_SDK + "/")("@restatedev/restate-sdk");

const operation = restate.service({
  name: "operation",
  handlers: {
    run: async (ctx, number) => {
      const one = await ctx.run("one", () => number + 1);
      const two = await ctx.run("two", () => one + 2);
      return await ctx.run("three", () => two + 3);
    },
  },
});

restate.serve({ services: [operation], port: Number(process.env.PORT) }).then(() => console.log("ready"));
