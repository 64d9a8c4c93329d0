import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerBuilder;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.SchedulerName;
import com.github.kagkarlsson.scheduler.task.SchedulableInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/**
 * The driver of db-scheduler: one-time tasks on PostgreSQL.
 *
 * <p>Defaults: 10 threads, polling every 10 s, the fetch strategy. Best settings: lock-and-fetch with 20 threads and
 * the limits 4 and 20, a configuration that the page "Performance" of its documentation has figures of (there in four
 * processes, here in one, since its threads use both cores). Our choice: polling every 100 ms, a pool of 25
 * connections, the PostgreSQL driver's rewriting of batched inserts, and in the failover a heartbeat every second and
 * four missed ones (README, "Dead executions").
 */
public final class Driver implements Harness.Peer {
  /** The table, as the project publishes it for PostgreSQL. */
  private static final String TABLE =
      """
      create table scheduled_tasks (
        task_name text not null,
        task_instance text not null,
        task_data bytea,
        execution_time timestamp with time zone not null,
        picked boolean not null,
        picked_by text,
        last_success timestamp with time zone,
        last_failure timestamp with time zone,
        consecutive_failures int,
        last_heartbeat timestamp with time zone,
        version bigint not null,
        priority smallint,
        primary key (task_name, task_instance)
      );
      create index execution_time_idx on scheduled_tasks (execution_time);
      create index last_heartbeat_idx on scheduled_tasks (last_heartbeat);
      create index priority_execution_time_idx on scheduled_tasks (priority desc, execution_time asc);
      """;

  private final HikariDataSource database;
  private final OneTimeTask<Void> task;
  private final SchedulerClient client;

  private Driver() {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(Harness.jdbcUrl() + (Harness.tuned() ? "?reWriteBatchedInserts=true" : ""));
    config.setUsername("postgres");
    config.setMaximumPoolSize(Harness.tuned() ? 25 : 10);
    database = new HikariDataSource(config);
    task = Tasks.oneTime("noop").execute((instance, context) -> Harness.job(Long.parseLong(instance.getId())));
    client = SchedulerClient.Builder.create(database, task).build();
  }

  public static void main(String[] args) throws Exception {
    Harness.begin(args);
    Harness.serve(new Driver());
  }

  @Override
  public void setup() throws Exception {
    try (Connection connection = database.getConnection()) {
      connection.createStatement().execute(TABLE);
    }
  }

  @Override
  public void fill(int n, int base, long from, long span) throws Exception {
    Harness.batches(
        n,
        5_000,
        4,
        (first, count) -> {
          List<SchedulableInstance<?>> instances = new ArrayList<>(count);
          for (int i = first; i < first + count; i++) {
            Instant at = Instant.ofEpochMilli(Harness.due(i, n, from, span));
            instances.add(SchedulableInstance.of(task.instance(Integer.toString(base + i)), at));
          }
          client.scheduleBatch(instances);
        });
  }

  @Override
  public void single(int n, int callers, long at) throws Exception {
    Instant due = Instant.ofEpochMilli(at);
    Harness.batches(
        n, 1, callers, (id, count) -> client.scheduleIfNotExists(task.instance(Integer.toString(id)), due));
  }

  @Override
  public void work() {
    SchedulerBuilder builder =
        Scheduler.create(database, task).schedulerName(new SchedulerName.Fixed("p" + ProcessHandle.current().pid()));
    if (Harness.tuned()) {
      builder.threads(20).pollUsingLockAndFetch(4.0, 20.0).pollingInterval(Duration.ofMillis(100));
      if (Harness.arg("failover").equals("yes")) {
        builder.heartbeatInterval(Duration.ofSeconds(1)).missedHeartbeatsLimit(4);
      }
    }
    builder.build().start();
  }

  @Override
  public boolean unfinished() throws Exception {
    try (Connection connection = database.getConnection()) {
      return connection.createStatement().executeQuery("select 1 from scheduled_tasks limit 1").next();
    }
  }
}
