"""From numbers to a table, and both to files."""

import json
import pathlib
import shutil
import statistics

from .processes import ROOT

RESULTS = ROOT / "bench/results"


def number(value):
    """Enough digits to compare, and no more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def rates(side):
    """Returns the rates of a side; or, for single actions, their durations."""
    if "ms" in side:
        return f"{number(side['ms']['median'])} ms"
    rate = side["per_second"]
    return f"{number(rate['median'])}{' ' + side['unit'] if side.get('unit') else ''}/s"


def row(name, figure, noisy):
    words = [{True: "met", False: "MISSED", None: ""}[figure["met"]], "noisy" if noisy or figure.get("noise") else ""]
    verdict = ", ".join(filter(None, words))
    if "ratio" not in figure:
        spread = f" ({number(figure['min'])} – {number(figure['max'])})" if "min" in figure else ""
        return [name, figure["what"], number(figure["value"]), "", number(figure["value"]) + spread, figure["goal"], verdict]
    ratio = figure["ratio"]
    told = f"{number(ratio['median'])} ({number(ratio['min'])} – {number(ratio['max'])})"
    return [name, figure["what"], rates(figure["ours"]), rates(figure["other"]), told, figure["goal"], verdict]


def table(lines):
    head = ["figure", "what", "ours", "other", "median (min – max)", "goal", "verdict"]
    return ["| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines)]


def sealing_line(name, sealed):
    return (f"- {name}: {sealed['acknowledged']:,} commands acknowledged, {sealed['entries']:,} audit entries sealed; "
            f"at most {sealed['lag_max_ms']:.0f} ms late under load, {sealed['after_end_ms']:.0f} ms after its end "
            "(limit 1,000 ms).")


def of_directories(count):
    return f", {count['of_directories']} of them of directories" if "of_directories" in count else ""


def durability_line(name, found):
    told = [f"{count['flushes']} flushes for {count['acknowledged']} writes with {who}" + of_directories(count)
            for who, count in found.items() if who != "proven"]
    verdict = "every write waited for one" if found["proven"] else "acknowledged before it is on the disk"
    if any(count.get("of_directories") == 0 for who, count in found.items() if who != "proven"):
        verdict += ", but the names of new files are not brought to the disk: a power cut may lose what was acknowledged"
    return f"- {name}: {', '.join(told)}: {verdict}."


def cpu_line(name, figure):
    parts = []
    for side in ("ours", "other"):
        spent = [seen["cpu_us_per_request"] for seen in figure[side]["rounds"]]
        mean = {who: statistics.mean(one[who] for one in spent) for who in spent[0]}
        parts.append(f"{side}: " + ", ".join(f"{who} {value:,.0f}" for who, value in mean.items() if value >= 0.5))
    return f"- {name}: {'; '.join(parts)}."


def placement_lines(name, figure):
    """Both ways on both sizes; the naive one is no goal, it shows what would be if nothing were indexed."""
    for size, ours in figure["placement"]["ours"].items():
        naive = figure["placement"]["naive"][size]
        times = naive["p50_us"] / ours["p50_us"]
        yield (f"- {name}, {size} slots: p50 {number(ours['p50_us'])} µs, p99 {number(ours['p99_us'])} µs; "
               f"by reading every free slot {number(naive['p50_us'])} µs and {number(naive['p99_us'])} µs: "
               f"{number(times)} times as long.")


def rest_lines(name, figure):
    """A fleet at rest: its heartbeats, and its cost."""
    seen = figure["rest"]
    rate, cores, looks = seen["per_second"], seen["cores"], seen["looks"]
    yield (f"- {name}: {len(looks)} looks at all nodes in {seen['seconds']:.0f} s; the longest silence in each: "
           f"{', '.join(number(one['silence_s']) for one in looks)} s; "
           f"not ready: {sum(one['not_ready'] for one in looks)}, unreachable: {sum(one['unreachable'] for one in looks)}.")
    yield (f"- The database, each second: {number(rate['commits'])} transactions committed, reading ones among them; "
           f"{number(rate['writing'])} transaction numbers given out, which only those that write get; "
           f"{number(rate['wal_bytes'] / 1000)} kB of log.")
    yield "- Processor time, % of a core: " + ", ".join(f"{who} {number(value * 100)}" for who, value in cores.items()) + "."
    for who, held in seen["memory"].items():
        yield (f"- Memory of {who}, MB: {held['rss_mb']} resident; {held['anon_mb']} its own, "
               f"{held['file_mb']} mapped from files.")


def wait_lines(name, figure):
    """Time that clients waited, and the work's share of it."""
    inner = figure["operation"]
    yield (f"- {name}: p50 {number(figure['p50_ms'])} ms, p90 {number(figure['p90_ms'])}, p99 {number(figure['p99_ms'])}, "
           f"slowest {number(figure['max_ms'])}; by the server's own clock, from accepted to ended, p50 "
           f"{number(inner['p50_ms'])} ms, p99 {number(inner['p99_ms'])}.")


def load_lines(name, figure):
    """Cost of a cycle."""
    load = figure["load"]
    spent, counted = load["cpu_us_per_request"], load["per_cycle"]
    yield (f"- {name}: {load['ok']:,} cycles in {load['seconds']:.0f} s, {load['non2xx']} answers that were no success; "
           "afterwards every node was ready and free.")
    shares = ", ".join(f"{who} {number(value / 1000)}" for who, value in spent.items())
    yield f"- Processor time of a cycle, ms: {shares}."
    yield (f"- The database, each cycle: {number(counted['commits'])} transactions committed, reading ones among them, "
           f"{number(counted['rollbacks'])} rolled back, {number(counted['writing'])} transaction numbers given out, "
           f"{number(counted['wal_bytes'] / 1000)} kB of log.")


def agent_lines(name, figure):
    yield (f"- {name}: {', '.join(str(one['rss_mb']) for one in figure['all'])} MB resident after {figure['after_s']} s; "
           f"of the middle one {figure['anon_mb']} are its own and {figure['file_mb']} mapped from files, of which the kernel "
           "maps 16 pages for each that is touched.")


def step_lines(name, figure):
    """Where the time of ours goes, by the server's clock."""
    parts = ", ".join(f"{step} {number(ms)}" for step, ms in figure["steps"].items())
    yield f"- {name}, p50 of each step, ms: {parts}."


def timeline_lines(name, figure):
    """Start and end of each step of an operation and of its children, in the median round."""
    rounds = sorted(figure["ours"]["rounds"], key=lambda seen: seen["ms"])
    seen = rounds[len(rounds) // 2]
    parts = [f"{entry['what']} {number(entry['from_ms'])} → {number(entry['to_ms'])}" for entry in seen["timeline"]
             if entry["to_ms"] - entry["from_ms"] >= 50]
    yield f"- {name}, a round of {number(seen['ms'])} ms: {'; '.join(parts)}."


def held_lines(name, figure):
    for when, held in figure["held"].items():
        yield (f"- {name}, {when}: {held['rss_mb']} MB resident; {held['anon_mb']} its own, "
               f"{held['file_mb']} mapped from files.")


def streamed_lines(name, figure):
    for who, held in figure["streamed"].items():
        yield (f"- {name}, {who}: {held['before_mb']} MB resident before, {held['high_mb']} at the highest: "
               f"{held['grown_mb']} more.")


def decision_lines(name, figure):
    parts = ", ".join(f"{kind} {number(seen['ms'])}{'' if seen['trusted'] else ' (not trusted)'}"
                      for kind, seen in figure["decisions"].items())
    yield f"- {name}, ms: {parts}."


def accepted_lines(name, figure):
    """The outcome of the submitted operations."""
    rounds = figure["ours"]["rounds"]
    if not rounds[0].get("settled_s"):
        return
    count, settled = sum(seen["ok"] for seen in rounds), sum(seen["settled_s"] for seen in rounds)
    latency = max(seen["latency_ms"]["p99"] for seen in rounds)
    yield (f"- {name}: {count:,} operations acknowledged, as many succeeded, and each has its two entries in the audit; the slowest "
           f"round's p99 of an answer (of the end, where clients wait for it) was {number(latency)} ms; after the rounds it took "
           f"{number(settled / len(rounds))} s each until all were done.")


def way_lines(name, figure):
    for way, seen in figure["ways"].items():
        told = lambda times: f"p50 {number(times['p50'])}, p99 {number(times['p99'])}, slowest {number(times['max'])} ms"
        yield (f"- {name}, {way}: {seen['events']} events heard by {seen['subscribers']:,} each; from sending the command "
               f"{told(seen['from_sent_ms'])}; from its answer {told(seen['from_answer_ms'])}; raw NOTIFY with a row, from sending "
               f"to hearing, {told(seen['raw_ms'])}.")


def look_lines(name, figure):
    made, cores = figure["made"], figure["cores"]
    yield (f"- {name}: {figure['looks']:,} looks, {number(figure['per_second'])} a second; late by p50 {number(figure['p50'])}, "
           f"p90 {number(figure['p90'])}, p99 {number(figure['p99'])}, at most {number(figure['max_s'])} s. {made['instances']} of the "
           f"instances are real, made in {number(made['seconds'])} s ({number(made['members'] / made['seconds'])} members a second); "
           "the rest were copied from them by SQL.")
    yield "- Processor time meanwhile, % of a core: " + ", ".join(f"{who} {number(value * 100)}" for who, value in cores.items()) + "."


def read_lines(name, figure):
    seen = figure["reads"]
    times = seen["latency_ms"]
    yield (f"- {name}: {seen['ok']:,} reads, {number(seen['per_second'])} a second by {seen['clients']} clients: p50 "
           f"{number(times['p50'])}, p90 {number(times['p90'])}, p99 {number(times['p99'])}, slowest {number(times['max'])} ms.")


def decay_lines(name, figure):
    before, after = figure["before"], figure["after"]
    yield (f"- {name}: {figure['past']:,} finished operations with as many witnesses and steps of adapters and twice as many audit "
           f"entries, put in by SQL in {number(figure['filled_s'])} s. Operations {number(before['per_second'])} → "
           f"{number(after['per_second'])} a second ({number(figure['operations'])}), p99 of reads {number(before['read_p99_ms'])} → "
           f"{number(after['read_p99_ms'])} ms ({number(figure['reads_ratio'])}).")


def apps_lines(figures):
    for name, figure in figures.items():
        if name.startswith(("members-", "durable-")):
            yield from accepted_lines(name, figure)
        for key, tell in {"ways": way_lines, "looks": look_lines, "reads": read_lines, "past": decay_lines}.items():
            if figure.get(key):
                yield from tell(name, figure)


def registry_note(run):
    if "docker-registry" not in run["settings"]:
        return []
    return ["- docker-registry runs without authentication, which its package would ask for; ours checks a Bearer token and the "
            "rights of its owner with every request, and writes an audit entry and an event with every manifest. The generator "
            "has one core, and the server that is asked the other."]


def flood_line(name, figure):
    answers = {}
    for seen in figure["ours"]["rounds"]:
        for status, count in seen["flood"].items():
            answers[status] = answers.get(status, 0) + count
    told = ", ".join(f"{count:,} × {status}" for status, count in sorted(answers.items()))
    return (f"- {name}: every limit is the default here. The attacker's generator ({figure['flooded_by']}) was answered {told}; every answer "
            "to the other tenant was right.")


def head(run):
    facts, plan = run["machine"], run["plan"]
    mode = "a quick look, not a measurement" if run["quick"] else f"A-B-B-A × {plan['blocks']}"
    lifted = ", ".join(f"{key} = {value}" for key, value in run["settings"]["muster"].items())
    return [f"# Benchmark of {facts['started_at']}", "",
            f"{facts['cores']} cores ({facts['cpu']}), {facts['memory_gib']} GiB, {facts['filesystem']}, "
            f"Linux {facts['kernel']}; {mode}; {plan['clients']} clients, {plan['seconds']} s a round. "
            f"Our rate limits are lifted ({lifted}); all else is default.", "",
            *(line for reason in run["noise"] for line in (f"**noisy**: {reason}.", ""))]


def sections(run):
    """Returns the sections below the table: title and lines."""
    figures = run["figures"]
    those_with = lambda key: ((name, figure) for name, figure in figures.items() if figure.get(key))
    return {
        "Noise": [f"- {name}: {'; '.join(figure['noise'])}." for name, figure in those_with("noise")],
        "Audit": [sealing_line(name, figure["sealing"]) for name, figure in those_with("sealing")],
        "Placement": [line for name, figure in those_with("placement") for line in placement_lines(name, figure)],
        "The fleet": [line for key, tell in {"rest": rest_lines, "operation": wait_lines, "load": load_lines,
                                             "after_s": agent_lines}.items()
                      for name, figure in those_with(key) for line in tell(name, figure)],
        "Cells": [line for key, tell in {"steps": step_lines, "held": held_lines}.items()
                  for name, figure in those_with(key) for line in tell(name, figure)],
        "Slurm, step by step, ms since the operation was accepted": [
            line for name, figure in those_with("slurm") for line in timeline_lines(name, figure)],
        "The registry": registry_note(run) + [
            line for key, tell in {"streamed": streamed_lines, "decisions": decision_lines}.items()
            for name, figure in those_with(key) for line in tell(name, figure)],
        "Two tenants": [flood_line(name, figure) for name, figure in those_with("flooded_by")],
        "Apps": list(apps_lines(figures)),
        "Durability": [durability_line(name, found) for name, found in run["durability"].items()],
        "Processor time for each request, in microseconds":
            [cpu_line(name, figure) for name, figure in those_with("ratio")],
        "Versions": [f"- {name}: {version}" for name, version in run["versions"].items()],
    }


def markdown(run):
    lines = head(run) + table([row(name, figure, run["noise"]) for name, figure in run["figures"].items()]) + [""]
    for title, told in sections(run).items():
        lines += ["## " + title, "", *told, ""] if told else []
    return "\n".join(lines)


def without_places(text, places):
    """Paths of this machine mean nothing elsewhere."""
    for place, name in places.items():
        text = text.replace(str(place), name)
    return text


def save(run, places, whole):
    """Both files, and `latest` too where the run was whole."""
    RESULTS.mkdir(exist_ok=True)
    facts = run["machine"]
    stamp = facts["started_at"].replace("-", "").replace(":", "").split("+")[0]
    name = f"{stamp}Z-{facts['cores']}x-{facts['architecture']}-{facts['memory_gib']}GiB{'-quick' * run['quick']}"
    texts = {"json": json.dumps(run, indent=1, ensure_ascii=False) + "\n", "md": markdown(run)}
    for suffix, text in texts.items():
        file = RESULTS / f"{name}.{suffix}"
        file.write_text(without_places(text, places))
        if whole:
            shutil.copyfile(file, RESULTS / f"latest.{suffix}")
    return pathlib.Path("bench/results") / f"{name}.json", texts["md"]
