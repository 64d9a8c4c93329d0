//! Seeds.

use campanile_sim::{Report, run};

#[test]
fn smoke() {
    if std::env::var("SIM_LOG").is_ok() {
        tracing_subscriber::fmt().with_max_level(tracing_subscriber::filter::LevelFilter::INFO).init();
    }
    let seed = std::env::var("CAMPANILE_SIM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let report: Report = run(seed, std::env::var("SIM_SHOW").is_ok());
    println!("{report:#?}");
    assert!(report.violations.is_empty());
}
