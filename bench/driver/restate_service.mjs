// A durable handler of three steps for Restate, served as its documents say; the port comes with the environment.
import { createRequire } from "node:module";
const restate = createRequire(process.env.RESTATE_SDK + "/")("@restatedev/restate-sdk");

// The SDK uses it, and Node.js has it from version 22 on.
Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((yes, no) => ([resolve, reject] = [yes, no]));
  return { promise, resolve, reject };
};

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
