//! The binary `campanile`: configuration, backends, node, and the command line.
//!
//! Reading order: `cli` (what users type), `config` and `backends` (what a node is made of), `node` (how it lives).

mod cli;
mod config;
mod backends;
mod secrets;
mod clock;
mod node;
mod log;
mod bench;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
