import java.io.BufferedReader;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * What the Java drivers share: the line protocol with `run`, and the record of which job started when. The protocol is
 * described in the README.
 */
public final class Harness {
  /** What a driver does. */
  public interface Peer {
    void setup() throws Exception;

    /** Registers jobs in bulk: job i of n has the number base + i, and is due at {@link #due}. */
    void fill(int n, int base, long from, long span) throws Exception;

    /** The same for a cold start, where how they are registered does not matter. */
    default void many(int n, long from, long span) throws Exception {
      fill(n, 0, from, span);
    }

    /** Registers jobs one by one, all due far away. */
    void single(int n, int callers, long at) throws Exception;

    void work() throws Exception;

    boolean unfinished() throws Exception;
  }

  /** A batch of jobs to register. */
  public interface Batch {
    void register(int first, int count) throws Exception;
  }

  private static final AtomicInteger COUNT = new AtomicInteger();
  private static final List<long[]> STARTS = new ArrayList<>();
  private static Map<String, String> args = Map.of();
  private static FileOutputStream log;

  private Harness() {}

  /** It keeps its connections; made when the first job calls. */
  private static final class Http {
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
  }

  /** One HTTP call, which is what many jobs are. */
  private static void call(String url, long id) {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(url))
            .header("content-type", "application/json")
            // The sink counts by these two.
            .header("x-execution-id", Long.toString(id))
            .header("x-scheduled-at", "0")
            .POST(HttpRequest.BodyPublishers.ofString("{\"id\":" + id + "}"))
            .build();
    try {
      HttpResponse<Void> answer = Http.CLIENT.send(request, HttpResponse.BodyHandlers.discarding());
      if (answer.statusCode() != 200) {
        throw new IllegalStateException("status " + answer.statusCode());
      }
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
  }

  /** The job itself: it notes that it started, and does nothing, makes a call, or holds its place for a while. */
  public static void job(long id) {
    long now = System.currentTimeMillis();
    synchronized (STARTS) {
      STARTS.add(new long[] {id, now});
    }
    COUNT.incrementAndGet();
    note("S", id, now);
    if (args.containsKey("call")) {
      call(args.get("call"), id);
    }
    long hold = Long.parseLong(args.getOrDefault("hold", "0"));
    if (hold > 0) {
      try {
        Thread.sleep(hold);
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
        return;
      }
    }
    note("E", id, 0);
  }

  /** Synchronously, since a process that is killed must have said what it had started. */
  private static void note(String what, long id, long at) {
    if (log == null) {
      return;
    }
    long when = at == 0 ? System.currentTimeMillis() : at;
    try {
      synchronized (STARTS) {
        log.write((what + " " + id + " " + when + "\n").getBytes(StandardCharsets.UTF_8));
      }
    } catch (IOException failed) {
      throw new IllegalStateException(failed);
    }
  }

  public static String arg(String key) {
    return args.getOrDefault(key, "");
  }

  public static boolean tuned() {
    return arg("settings").equals("tuned");
  }

  /** The JDBC address of the database that was given as postgres://user@host:port/name. */
  public static String jdbcUrl() {
    return "jdbc:postgresql://" + arg("postgres").replaceFirst("^postgres://[^@]*@", "");
  }

  /** The instant at which job i of n is due: the jobs are spread evenly over the span. */
  public static long due(long i, int n, long from, long span) {
    return from + i * span / n;
  }

  /** Calls {@code batch} for batches of n jobs, a few at a time. */
  public static void batches(int n, int size, int inFlight, Batch batch) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(inFlight);
    AtomicInteger next = new AtomicInteger();
    Callable<Void> one =
        () -> {
          for (int first = next.getAndAdd(size); first < n; first = next.getAndAdd(size)) {
            batch.register(first, Math.min(size, n - first));
          }
          return null;
        };
    List<Future<Void>> calls = new ArrayList<>();
    for (int k = 0; k < inFlight; k++) {
      calls.add(threads.submit(one));
    }
    for (Future<Void> call : calls) {
      call.get();
    }
    threads.shutdown();
  }

  /** Reads the arguments; to be called before anything else. */
  public static void begin(String[] words) throws IOException {
    args = words(words, 0);
    if (args.containsKey("log")) {
      log = new FileOutputStream(args.get("log"), true);
    }
  }

  /** Obeys the commands on standard input, until the last. */
  public static void serve(Peer peer) throws IOException {
    PrintStream out = new PrintStream(new FileOutputStream(java.io.FileDescriptor.out), true);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] parts = line.trim().split(" ");
      if (parts[0].equals("quit")) {
        break;
      }
      try {
        out.println("ok " + parts[0] + handle(peer, parts[0], words(parts, 1), out));
      } catch (Exception failed) {
        failed.printStackTrace();
        out.println("error " + parts[0] + " " + failed);
      }
    }
    // A graceful stop is not measured; what was to be said has been said.
    Runtime.getRuntime().halt(0);
  }

  private static String handle(Peer peer, String command, Map<String, String> given, PrintStream out)
      throws Exception {
    long began = System.nanoTime();
    long at = System.currentTimeMillis();
    switch (command) {
      case "setup" -> {
        peer.setup();
        return "";
      }
      case "fill", "many" -> {
        int n = Integer.parseInt(given.get("n"));
        long from = Long.parseLong(given.get("from"));
        long span = Long.parseLong(given.get("span"));
        if (command.equals("many")) {
          peer.many(n, from, span);
        } else {
          peer.fill(n, Integer.parseInt(given.getOrDefault("base", "0")), from, span);
        }
        return " seconds=" + (System.nanoTime() - began) / 1e9;
      }
      case "single" -> {
        peer.single(Integer.parseInt(given.get("n")), Integer.parseInt(given.get("callers")), at + 3_600_000);
        return " seconds=" + (System.nanoTime() - began) / 1e9;
      }
      case "work" -> {
        peer.work();
        Thread counter = new Thread(() -> count(out));
        counter.setDaemon(true);
        counter.start();
        return " at=" + at;
      }
      case "settle" -> {
        while (peer.unfinished()) {
          Thread.sleep(5);
        }
        return " at=" + System.currentTimeMillis();
      }
      case "starts" -> {
        StringBuilder text = new StringBuilder();
        synchronized (STARTS) {
          STARTS.forEach(start -> text.append(start[0]).append(' ').append(start[1]).append('\n'));
        }
        Files.writeString(Path.of(given.get("file")), text);
        return "";
      }
      default -> throw new IllegalArgumentException("unknown command " + command);
    }
  }

  private static void count(PrintStream out) {
    int last = 0;
    while (true) {
      try {
        Thread.sleep(20);
      } catch (InterruptedException stopped) {
        return;
      }
      int count = COUNT.get();
      if (count != last) {
        last = count;
        out.println("count " + count);
      }
    }
  }

  /** key=value words as a map. */
  private static Map<String, String> words(String[] list, int from) {
    Map<String, String> given = new HashMap<>();
    for (int k = from; k < list.length; k++) {
      String[] pair = list[k].split("=", 2);
      if (pair.length == 2) {
        given.put(pair[0], pair[1]);
      }
    }
    return given;
  }
}
