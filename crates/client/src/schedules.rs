//! Schedules without a job: what they mean, and when they fire.

use crate::wire::{ScheduleExplanation, SchedulePreview, ScheduleQuestion};
use crate::{Client, Result, WriteOptions};
use reqwest::Method;

impl Client {
    /// `POST /v1/schedules:preview`: the coming fires.
    pub async fn preview_schedule(&self, question: &ScheduleQuestion) -> Result<SchedulePreview> {
        let options = WriteOptions::default();
        self.send(self.write(Method::POST, &["v1", "schedules:preview"], Some(question), &options)).await
    }

    /// `POST /v1/schedules:explain`: the meaning, in words.
    pub async fn explain_schedule(&self, question: &ScheduleQuestion) -> Result<ScheduleExplanation> {
        let options = WriteOptions::default();
        self.send(self.write(Method::POST, &["v1", "schedules:explain"], Some(question), &options)).await
    }
}
