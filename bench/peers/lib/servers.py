"""The database servers that everybody is measured on: one PostgreSQL, and Redis twice, once per durability."""

import os
import pwd
import shutil
import socket
import subprocess
import time
from pathlib import Path

# The same for everybody. Durable: a commit is on disk before it is answered.
POSTGRES_SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
    "max_connections": "300",
    "autovacuum": "on",
}

# `everysec` may lose the last second; it is what Redis does when its log is switched on and nothing else is said.
# `always` is what the commits of PostgreSQL are.
REDIS_SETTINGS = {"everysec": "appendonly yes, appendfsync everysec", "always": "appendonly yes, appendfsync always"}


class Missing(Exception):
    """Something that is not there, and cannot be had."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_root():
    return os.geteuid() == 0


def install_package(name):
    """With the system's package manager, which only root may ask."""
    if not is_root() or not shutil.which("apt-get"):
        raise Missing(f"{name} is not installed, and only root can install it")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", name], env=env, capture_output=True)
    if done.returncode != 0:
        raise Missing(f"{name} cannot be installed: {done.stderr.decode(errors='replace')[-300:]}")


class Postgres:
    """A private PostgreSQL 15 on a free port, with its files below `work`; or one that is there already."""

    def __init__(self, work, url=None):
        self.process = None
        self.url = url
        self.psql = shutil.which("psql")
        if url is None:
            self.start(Path(work) / "postgres")
        self.version = self.query("show server_version")

    @staticmethod
    def binaries():
        places = [Path("/usr/lib/postgresql/15/bin"), Path("/usr/local/pgsql/bin")]
        found = next((place for place in places if (place / "initdb").exists()), None)
        if found is None and shutil.which("initdb"):
            found = Path(shutil.which("initdb")).parent
        if found is None:
            install_package("postgresql-15")
            found = places[0]
        return found

    def start(self, directory):
        binaries = self.binaries()
        self.psql = self.psql or str(binaries / "psql")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        # PostgreSQL refuses to run as root.
        who = {}
        if is_root():
            account = pwd.getpwnam("postgres")
            os.chown(directory, account.pw_uid, account.pw_gid)
            who = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        data = directory / "data"
        subprocess.run(
            [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"],
            check=True, stdout=subprocess.DEVNULL, cwd="/", **who,
        )
        port = free_port()
        options = [f"-c{key}={value}" for key, value in POSTGRES_SETTINGS.items()]
        options += ["-clisten_addresses=127.0.0.1", f"-cport={port}", f"-cunix_socket_directories={directory}"]
        with open(directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                [binaries / "postgres", "-D", data, *options], stdout=log, stderr=log, cwd="/", **who,
            )
        self.url = f"postgres://postgres@127.0.0.1:{port}/postgres"
        for _ in range(200):
            if subprocess.run([self.psql, self.url, "-qc", "select 1"], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise Missing(f"PostgreSQL does not start; see {directory / 'log'}")

    def query(self, sql, database=None):
        done = subprocess.run(
            [self.psql, self.database_url(database), "-qAtX", "-v", "ON_ERROR_STOP=1", "-c", sql],
            capture_output=True, text=True,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{sql}: {done.stderr.strip()}")
        return done.stdout.strip()

    def database_url(self, database=None):
        return self.url if database is None else f"{self.url.rsplit('/', 1)[0]}/{database}"

    def fresh(self, database):
        """An empty database, and a server that owes no checkpoint of what was before."""
        self.query(f'drop database if exists "{database}" with (force)')
        self.query(f'create database "{database}"')
        self.query("checkpoint")
        return self.database_url(database)

    def wal_bytes(self):
        """How much was ever written to its log."""
        return int(self.query("select pg_current_wal_lsn() - '0/0'::pg_lsn"))

    @property
    def pids(self):
        """Of the server, if it is ours."""
        return [] if self.process is None else [self.process.pid]

    def stop(self):
        if self.process is not None:
            self.process.send_signal(2)  # the fast shutdown
            self.process.wait()


class Redis:
    """A private Redis on a free port."""

    def __init__(self, work, fsync):
        if not shutil.which("redis-server"):
            install_package("redis-server")
        directory = Path(work) / f"redis-{fsync}"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        self.port = free_port()
        with open(directory / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(directory),
                 "--appendonly", "yes", "--appendfsync", fsync, "--save", ""],
                stdout=log, stderr=log,
            )
        for _ in range(100):
            try:
                self.ask("ping")
                break
            except RuntimeError:
                time.sleep(0.05)
        self.version = self.info("redis_version")

    def ask(self, *words):
        done = subprocess.run(["redis-cli", "-p", str(self.port), *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    def info(self, key):
        lines = (line.partition(":") for line in self.ask("info").splitlines())
        return next((value.strip() for name, _, value in lines if name == key), "")

    def fresh(self):
        self.ask("flushall")

    @property
    def pids(self):
        return [self.process.pid]

    def stop(self):
        self.process.terminate()
        self.process.wait()
