import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.util.Date;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.quartz.Job;
import org.quartz.JobBuilder;
import org.quartz.JobDetail;
import org.quartz.JobExecutionContext;
import org.quartz.Scheduler;
import org.quartz.SimpleScheduleBuilder;
import org.quartz.Trigger;
import org.quartz.TriggerBuilder;
import org.quartz.impl.StdSchedulerFactory;

/**
 * The driver of Quartz: triggers of one job in the clustered JDBC store on PostgreSQL.
 *
 * <p>Defaults: 10 threads, one trigger acquired at a time. Best settings, all of the page "Configuration Reference": 50
 * threads (50 or 100 for tens of thousands of jobs), more than one trigger acquired at once, and that within the lock.
 * Our choice: as many at once as there are threads, five connections more than threads, and in the failover a check-in
 * every second. The fire-ahead window stays 0: a larger one makes jobs start before they are due.
 */
public final class Driver implements Harness.Peer {
  private static final int THREADS = 50;

  private final JobDetail job =
      JobBuilder.newJob(Noop.class).withIdentity("noop").storeDurably().requestRecovery().build();
  private final HikariDataSource database;
  private Scheduler scheduler;

  /** The job. */
  public static final class Noop implements Job {
    @Override
    public void execute(JobExecutionContext context) {
      // A recovered execution has a trigger of its own, with the data of the first one.
      Harness.job(Long.parseLong(context.getMergedJobDataMap().getString("id")));
    }
  }

  private Driver() {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(Harness.jdbcUrl());
    config.setUsername("postgres");
    config.setMaximumPoolSize(2);
    database = new HikariDataSource(config);
  }

  public static void main(String[] args) throws Exception {
    Harness.begin(args);
    Harness.serve(new Driver());
  }

  /** The scheduler is made late, since it needs its tables. */
  private Scheduler scheduler() throws Exception {
    if (scheduler == null) {
      Properties properties = new Properties();
      properties.put("org.quartz.scheduler.instanceName", "bench");
      properties.put("org.quartz.scheduler.instanceId", "AUTO");
      properties.put("org.quartz.threadPool.class", "org.quartz.simpl.SimpleThreadPool");
      properties.put("org.quartz.threadPool.threadCount", Integer.toString(Harness.tuned() ? THREADS : 10));
      properties.put("org.quartz.jobStore.class", "org.quartz.impl.jdbcjobstore.JobStoreTX");
      properties.put("org.quartz.jobStore.driverDelegateClass", "org.quartz.impl.jdbcjobstore.PostgreSQLDelegate");
      properties.put("org.quartz.jobStore.dataSource", "db");
      properties.put("org.quartz.jobStore.isClustered", "true");
      properties.put("org.quartz.dataSource.db.provider", "hikaricp");
      properties.put("org.quartz.dataSource.db.driver", "org.postgresql.Driver");
      properties.put("org.quartz.dataSource.db.URL", Harness.jdbcUrl());
      properties.put("org.quartz.dataSource.db.user", "postgres");
      properties.put("org.quartz.dataSource.db.maxConnections", Integer.toString(Harness.tuned() ? THREADS + 5 : 15));
      if (Harness.tuned()) {
        properties.put("org.quartz.scheduler.batchTriggerAcquisitionMaxCount", Integer.toString(THREADS));
        properties.put("org.quartz.jobStore.acquireTriggersWithinLock", "true");
        if (Harness.arg("failover").equals("yes")) {
          properties.put("org.quartz.jobStore.clusterCheckinInterval", "1000");
        }
      }
      scheduler = new StdSchedulerFactory(properties).getScheduler();
    }
    return scheduler;
  }

  @Override
  public void setup() throws Exception {
    String path = "/org/quartz/impl/jdbcjobstore/tables_postgres.sql";
    try (InputStream tables = Scheduler.class.getResourceAsStream(path);
        Connection connection = database.getConnection()) {
      connection.createStatement().execute(new String(tables.readAllBytes(), StandardCharsets.UTF_8));
    }
    scheduler().addJob(job, true);
  }

  private Trigger trigger(int id, long at) {
    return TriggerBuilder.newTrigger()
        .withIdentity("t" + id)
        .forJob(job)
        .usingJobData("id", Integer.toString(id))
        .startAt(new Date(at))
        .withSchedule(SimpleScheduleBuilder.simpleSchedule().withMisfireHandlingInstructionFireNow())
        .build();
  }

  @Override
  public void fill(int n, int base, long from, long span) throws Exception {
    Harness.batches(
        n,
        1_000,
        1,
        (first, count) -> {
          Set<Trigger> triggers = new HashSet<>();
          for (int i = first; i < first + count; i++) {
            triggers.add(trigger(base + i, Harness.due(i, n, from, span)));
          }
          scheduler().scheduleJobs(Map.of(job, triggers), true);
        });
  }

  /** Copies of one trigger, since storing a million of them would take hours. */
  @Override
  public void many(int n, long from, long span) throws Exception {
    fill(1, 0, from, span);
    try (Connection connection = database.getConnection()) {
      String copied =
          """
          insert into qrtz_triggers (sched_name, trigger_name, trigger_group, job_name, job_group, next_fire_time,
              prev_fire_time, priority, trigger_state, trigger_type, start_time, end_time, misfire_instr, job_data)
            select sched_name, 't' || i, trigger_group, job_name, job_group, %1$d + i::bigint * %2$d / %3$d,
              prev_fire_time, priority, trigger_state, trigger_type, %1$d + i::bigint * %2$d / %3$d, end_time,
              misfire_instr, job_data
            from qrtz_triggers, generate_series(1, %3$d - 1) i where trigger_name = 't0';
          insert into qrtz_simple_triggers (sched_name, trigger_name, trigger_group, repeat_count, repeat_interval,
              times_triggered)
            select sched_name, 't' || i, trigger_group, repeat_count, repeat_interval, times_triggered
            from qrtz_simple_triggers, generate_series(1, %3$d - 1) i where trigger_name = 't0';
          """;
      connection.createStatement().execute(String.format(copied, from, span, n));
    }
  }

  @Override
  public void single(int n, int callers, long at) throws Exception {
    Harness.batches(n, 1, callers, (id, count) -> scheduler().scheduleJob(trigger(id, at)));
  }

  @Override
  public void work() throws Exception {
    scheduler().start();
  }

  @Override
  public boolean unfinished() throws Exception {
    try (Connection connection = database.getConnection()) {
      String query = "select 1 from qrtz_triggers union all select 1 from qrtz_fired_triggers limit 1";
      return connection.createStatement().executeQuery(query).next();
    }
  }
}
