// The driver of BullMQ: no-op jobs on Redis.
//
// Defaults: one job at a time, every finished job is kept. Best settings: 100 at a time and two processes, one per core
// (page "Parallelism and Concurrency", which calls 100 to 300 at a time standard), finished jobs removed (page
// "Auto-removal of jobs"). Our choice: the lower end of that range, 1,000 jobs in a bulk, and in the failover locks of
// 3 s that are looked at every second (page "Stalled Jobs" has the option, and no values).
import { Queue, Worker } from "bullmq";
import { args, batches, due, job, serve, tuned } from "../common/harness.mjs";

const connection = { host: "127.0.0.1", port: Number(args.redis), maxRetriesPerRequest: null };
const queue = new Queue("bench", {
  connection,
  defaultJobOptions: tuned ? { removeOnComplete: true } : {},
});
const failover = args.failover === "yes" ? { lockDuration: 3_000, stalledInterval: 1_000 } : {};

await serve({
  async setup() {
    await queue.waitUntilReady();
  },

  async fill(n, base, from, span) {
    await batches(n, 1_000, 4, async (first, count) => {
      const now = Date.now();
      await queue.addBulk(
        Array.from({ length: count }, (_, k) => {
          const delay = due(first + k, n, from, span) - now;
          return { name: "noop", data: { id: base + first + k }, opts: delay > 0 ? { delay } : {} };
        }),
      );
    });
  },

  async single(n, callers, at) {
    await batches(n, 1, callers, (id) => queue.add("noop", { id }, { delay: at - Date.now() }));
  },

  async work() {
    const worker = new Worker("bench", ({ data }) => job(data.id), {
      connection,
      ...(tuned ? { concurrency: 100, ...failover } : {}),
    });
    worker.on("error", (error) => console.error(error));
    await worker.waitUntilReady();
  },

  async unfinished() {
    const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized", "paused");
    return Object.values(counts).some((count) => count > 0);
  },
});
