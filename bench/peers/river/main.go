// The driver of River: no-op jobs on PostgreSQL.
//
// Defaults: what the library has, with the 100 workers of the page "Getting started" (there is no default for that
// number). Best settings: those of River's own `river bench` command (package `riverbench`: 2,000 workers, a fetch
// cooldown of 2 ms, polling every 20 ms). Registration is by COPY in both (page "Batch job insertion"). Our choice: a
// pool of 20 connections, and in the failover that a job may run for 2 s and is rescued after 3 s; how often is looked
// (30 s) cannot be set.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

type noopArgs struct {
	ID int `json:"id"`
}

func (noopArgs) Kind() string { return "noop" }

// What started when.
type start struct {
	id int
	at int64
}

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	hold   time.Duration
	call   string
	client *http.Client
	log    *os.File
	mu     sync.Mutex
	starts []start
	count  atomic.Int64
}

// One HTTP call, which is what many jobs are.
func (w *noopWorker) post(ctx context.Context, id int) error {
	body := strings.NewReader(fmt.Sprintf(`{"id":%d}`, id))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.call, body)
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	// The sink counts by these two.
	request.Header.Set("x-execution-id", strconv.Itoa(id))
	request.Header.Set("x-scheduled-at", "0")
	answer, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err = io.Copy(io.Discard, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	return nil
}

// The job itself: it notes that it started, and does nothing, makes a call, or holds its place for a while.
func (w *noopWorker) Work(ctx context.Context, job *river.Job[noopArgs]) error {
	now := time.Now().UnixMilli()
	w.mu.Lock()
	w.starts = append(w.starts, start{job.Args.ID, now})
	w.mu.Unlock()
	w.count.Add(1)
	// Synchronously, since a process that is killed must have said what it had started.
	if w.log != nil {
		fmt.Fprintf(w.log, "S %d %d\n", job.Args.ID, now)
	}
	if w.call != "" {
		if err := w.post(ctx, job.Args.ID); err != nil {
			return err
		}
	}
	if w.hold > 0 {
		time.Sleep(w.hold)
	}
	if w.log != nil {
		fmt.Fprintf(w.log, "E %d %d\n", job.Args.ID, time.Now().UnixMilli())
	}
	return nil
}

// `key=value` words as a map.
func words(list []string) map[string]string {
	given := map[string]string{}
	for _, word := range list {
		if key, value, found := strings.Cut(word, "="); found {
			given[key] = value
		}
	}
	return given
}

var saying sync.Mutex

func say(format string, values ...any) {
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf(format+"\n", values...)
}

type driver struct {
	args   map[string]string
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	worker *noopWorker
}

func newDriver(ctx context.Context, args map[string]string) (*driver, error) {
	config, err := pgxpool.ParseConfig(args["postgres"])
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	hold, _ := strconv.Atoi(args["hold"])
	// Connections are kept. Of 2,000 workers that call one host, few do so at the same moment; the others wait for
	// these, instead of opening connections that are used once.
	transport := &http.Transport{MaxIdleConnsPerHost: 128, MaxConnsPerHost: 128}
	worker := &noopWorker{
		hold:   time.Duration(hold) * time.Millisecond,
		call:   args["call"],
		client: &http.Client{Transport: transport},
	}
	if args["log"] != "" {
		if worker.log, err = os.OpenFile(args["log"], os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
			return nil, err
		}
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	settings := &river.Config{
		Logger:  slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 100}},
		Workers: workers,
	}
	if args["settings"] == "tuned" {
		settings.FetchCooldown = 2 * time.Millisecond
		settings.FetchPollInterval = 20 * time.Millisecond
		settings.Queues = map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2_000}}
		if args["failover"] == "yes" {
			settings.JobTimeout = 2 * time.Second
			settings.RescueStuckJobsAfter = 3 * time.Second
		}
	}
	client, err := river.NewClient(riverpgxv5.New(pool), settings)
	return &driver{args, pool, client, worker}, err
}

// Runs `call` for batches of `n` jobs, a few at a time.
func batches(n, size, inFlight int, call func(first, count int) error) error {
	var next atomic.Int64
	failed := make(chan error, inFlight)
	for range inFlight {
		go func() {
			for {
				first := int(next.Add(int64(size))) - size
				if first >= n {
					failed <- nil
					return
				}
				if err := call(first, min(size, n-first)); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	var first error
	for range inFlight {
		if err := <-failed; err != nil {
			first = err
		}
	}
	return first
}

func (d *driver) handle(ctx context.Context, command string, given map[string]string) (string, error) {
	number := func(key string) int64 {
		value, _ := strconv.ParseInt(given[key], 10, 64)
		return value
	}
	began := time.Now()
	seconds := func() string { return fmt.Sprintf(" seconds=%.6f", time.Since(began).Seconds()) }
	switch command {
	case "setup":
		migrator, err := rivermigrate.New(riverpgxv5.New(d.pool), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		}
		return "", err
	case "fill", "many":
		// By COPY, as the page "Batch job insertion" recommends for many.
		n, base, from, span := number("n"), number("base"), number("from"), number("span")
		err := batches(int(n), 5_000, 4, func(first, count int) error {
			params := make([]river.InsertManyParams, count)
			for k := range params {
				i := int64(first + k)
				at := time.UnixMilli(from + i*span/n)
				params[k] = river.InsertManyParams{Args: noopArgs{int(base + i)}, InsertOpts: &river.InsertOpts{ScheduledAt: at}}
			}
			_, err := d.client.InsertManyFast(ctx, params)
			return err
		})
		return seconds(), err
	case "single":
		at := time.Now().Add(time.Hour)
		err := batches(int(number("n")), 1, int(number("callers")), func(id, _ int) error {
			_, err := d.client.Insert(ctx, noopArgs{id}, &river.InsertOpts{ScheduledAt: at})
			return err
		})
		return seconds(), err
	case "work":
		if err := d.client.Start(ctx); err != nil {
			return "", err
		}
		go func() {
			last := int64(0)
			for range time.Tick(20 * time.Millisecond) {
				if count := d.worker.count.Load(); count != last {
					last = count
					say("count %d", count)
				}
			}
		}()
		return fmt.Sprintf(" at=%d", began.UnixMilli()), nil
	case "settle":
		for {
			var unfinished bool
			err := d.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM river_job WHERE state <> 'completed')`).Scan(&unfinished)
			if err != nil || !unfinished {
				return fmt.Sprintf(" at=%d", time.Now().UnixMilli()), err
			}
			time.Sleep(5 * time.Millisecond)
		}
	case "starts":
		file, err := os.Create(given["file"])
		if err != nil {
			return "", err
		}
		defer file.Close()
		out := bufio.NewWriter(file)
		for _, s := range d.worker.starts {
			fmt.Fprintf(out, "%d %d\n", s.id, s.at)
		}
		return "", out.Flush()
	}
	return "", fmt.Errorf("unknown command %s", command)
}

func main() {
	ctx := context.Background()
	d, err := newDriver(ctx, words(os.Args[1:]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		parts := strings.Fields(lines.Text())
		if len(parts) == 0 || parts[0] == "quit" {
			break
		}
		if answer, err := d.handle(ctx, parts[0], words(parts[1:])); err != nil {
			say("error %s %v", parts[0], err)
		} else {
			say("ok %s%s", parts[0], answer)
		}
	}
}
