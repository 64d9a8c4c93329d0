// The driver of graphile-worker: no-op tasks on PostgreSQL.
//
// Defaults: one job at a time, polling every 2 s. Best settings: those of the page "Performance" of its documentation
// (24 jobs at a time, a pool of 25, a local queue of 500, completions in batches). Our choice: two processes, one per
// core, where that page has four on a larger machine; and polling every 100 ms, which that page leaves alone, since it
// decides how late a scheduled job starts.
import pg from "pg";
import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { args, batches, due, job, serve, tuned } from "../common/harness.mjs";

const logger = new Logger(() => (level, message) => {
  if (level === "error") console.error(message);
});
const connectionString = args.postgres;
const pool = new pg.Pool({ connectionString, max: 20 });
const best = {
  concurrentJobs: 24,
  maxPoolSize: 25,
  pollInterval: 100,
  localQueue: { size: 500 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
};

await serve({
  async setup() {
    await runMigrations({ connectionString, logger });
  },

  // `add_jobs`, as the page "Adding jobs through SQL" has it.
  async fill(n, base, from, span) {
    await batches(n, 5_000, 4, async (first, count) => {
      const specs = Array.from({ length: count }, (_, k) => ({
        identifier: "noop",
        payload: { id: base + first + k },
        run_at: new Date(due(first + k, n, from, span)).toISOString(),
      }));
      await pool.query(
        `select count(*) from graphile_worker.add_jobs(array(
           select json_populate_recordset(null::graphile_worker.job_spec, $1::json)))`,
        [JSON.stringify(specs)],
      );
    });
  },

  async single(n, callers, at) {
    const utils = await makeWorkerUtils({ pgPool: pool, logger });
    await batches(n, 1, callers, (id) => utils.addJob("noop", { id }, { runAt: new Date(at) }));
  },

  async work() {
    await run({
      logger,
      noHandleSignals: true,
      taskList: { noop: (payload) => job(payload.id) },
      preset: { worker: { connectionString, ...(tuned ? best : {}) } },
    });
  },

  async unfinished() {
    const { rowCount } = await pool.query("select 1 from graphile_worker._private_jobs limit 1");
    return rowCount > 0;
  },
});
