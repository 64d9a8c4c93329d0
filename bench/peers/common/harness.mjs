// What the Node drivers share: the line protocol with `run`, and the record of which job started when.
//
// The protocol is described in the README. A peer hands in an object with `setup`, `fill`, `single`, `work` and
// `unfinished`; this file does the rest.
import fs from "node:fs";
import http from "node:http";
import readline from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

/** `key=value` words as an object. */
const words = (list) => Object.fromEntries(list.map((word) => word.split(/=(.*)/s).slice(0, 2)));

export const args = words(process.argv.slice(2));
export const tuned = args.settings === "tuned";
const hold = Number(args.hold ?? 0);
// Connections are kept, and as many as there are jobs at a time: a job never waits for one.
const agent = new http.Agent({ keepAlive: true });

const ids = [];
const starts = [];
const log = args.log ? fs.openSync(args.log, "a") : null;

const say = (line) => fs.writeSync(1, line + "\n");

/** One HTTP call, which is what many jobs are. */
const call = (url, id) =>
  new Promise((done, failed) => {
    const body = JSON.stringify({ id });
    // The sink counts by these two.
    const own = { "x-execution-id": id, "x-scheduled-at": 0 };
    const headers = { "content-type": "application/json", "content-length": body.length, ...own };
    const request = http.request(url, { method: "POST", agent, headers }, (answer) => {
      answer.resume();
      answer.on("end", () => (answer.statusCode === 200 ? done() : failed(new Error(`status ${answer.statusCode}`))));
    });
    request.on("error", failed);
    request.end(body);
  });

/** The job itself: it notes that it started, and does nothing, makes a call, or holds its place for a while. */
export async function job(id) {
  const now = Date.now();
  ids.push(id);
  starts.push(now);
  // Synchronously, since a process that is killed must have said what it had started.
  if (log !== null) fs.writeSync(log, `S ${id} ${now}\n`);
  if (args.call) await call(args.call, id);
  if (hold > 0) await sleep(hold);
  if (log !== null) fs.writeSync(log, `E ${id} ${Date.now()}\n`);
}

/** The instant at which job `i` of `n` is due: the jobs are spread evenly over `span` milliseconds. */
export const due = (i, n, from, span) => from + Math.floor((i * span) / n);

/** Runs `call(first, count)` for batches of `n` jobs, a few at a time. */
export async function batches(n, size, inFlight, call) {
  let next = 0;
  const one = async () => {
    while (next < n) {
      const first = next;
      next = Math.min(n, next + size);
      await call(first, next - first);
    }
  };
  await Promise.all(Array.from({ length: inFlight }, one));
}

async function handle(peer, command, given) {
  const number = (key) => Number(given[key]);
  const started = performance.now();
  const seconds = () => ` seconds=${((performance.now() - started) / 1000).toFixed(6)}`;
  switch (command) {
    case "setup":
      await peer.setup();
      return "";
    case "fill":
    case "many":
      await peer.fill(number("n"), Number(given.base ?? 0), number("from"), number("span"));
      return seconds();
    case "single":
      await peer.single(number("n"), number("callers"), Date.now() + 3_600_000);
      return seconds();
    case "work": {
      const at = Date.now();
      await peer.work();
      let last = 0;
      setInterval(() => {
        if (ids.length !== last) say(`count ${(last = ids.length)}`);
      }, 20);
      return ` at=${at}`;
    }
    case "settle":
      while (await peer.unfinished()) await sleep(5);
      return ` at=${Date.now()}`;
    case "starts":
      fs.writeFileSync(given.file, ids.map((id, i) => `${id} ${starts[i]}\n`).join(""));
      return "";
    default:
      throw new Error(`unknown command ${command}`);
  }
}

export async function serve(peer) {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [command, ...rest] = line.trim().split(" ");
    if (command === "quit") break;
    try {
      say(`ok ${command}${await handle(peer, command, words(rest))}`);
    } catch (error) {
      say(`error ${command} ${String(error?.stack ?? error).replaceAll("\n", " | ")}`);
    }
  }
  // A graceful stop is not measured, and may wait for polls; what was to be said has been said.
  process.exit(0);
}
