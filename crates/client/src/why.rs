//! Did it run, and why not?

use crate::wire::Why;
use crate::{Client, Result};
use reqwest::Method;

impl Client {
    /// `GET /v1/jobs/{job}/why?at=`: what became of the job at an instant.
    pub async fn why(&self, job: &str, at: &str) -> Result<Why> {
        self.send(self.ask(Method::GET, &["v1", "jobs", job, "why"], &[("at", Some(at))])).await
    }
}
