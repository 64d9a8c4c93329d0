//! Schedules and their bounds, as they were sent.

use super::job::schedule_kind;
use super::{Reader, shown};
use campanile_client::wire::FieldProblem;
use campanile_client::wire::input::ScheduleInput;
use campanile_model::job::Window;
use campanile_model::schedule::{DstFold, DstGap, Schedule, ScheduleError, parse_duration_ms, parse_text};
use std::str::FromStr;

/// What a schedule may call itself.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Called {
    Cron,
    Recurring,
    Every,
    At,
    After,
    None,
}

impl Called {
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "CRON" => Called::Cron,
            "RECURRING" => Called::Recurring,
            "EVERY" | "INTERVAL" => Called::Every,
            "ONE_TIME" | "ONE_SHOT" | "ONE_OFF" | "ONCE" | "AT" => Called::At,
            "DELAYED" | "DELAY" | "AFTER" => Called::After,
            "NONE" | "MANUAL" => Called::None,
            _ => return None,
        })
    }

    fn fits(self, schedule: &Schedule) -> bool {
        match schedule {
            Schedule::Cron { .. } => matches!(self, Called::Cron | Called::Recurring),
            Schedule::Every { .. } => matches!(self, Called::Every | Called::Recurring),
            // A delay is a way to say one time.
            Schedule::At { .. } => self == Called::At,
            Schedule::After { .. } => matches!(self, Called::After | Called::At),
            Schedule::None => self == Called::None,
        }
    }
}

impl Reader<'_> {
    pub(super) fn schedule(&mut self, input: &ScheduleInput) -> Option<Schedule> {
        let called = match input.kind.as_deref() {
            Some(word) => match Called::from_word(word) {
                Some(called) => Some(called),
                None => {
                    let fault = FieldProblem::new(
                        self.pointers.sent("/schedule/type"),
                        "schedule_type_invalid",
                        format!("there is no type of schedule `{}`", shown(word)),
                    );
                    self.faults.add(fault.hint("one of CRON, RECURRING, EVERY, ONE_TIME, DELAYED, NONE"));
                    return None;
                }
            },
            None => None,
        };
        let given: Vec<&str> = [
            ("/schedule", input.text.is_some()),
            ("/schedule/cron", input.cron.is_some()),
            ("/schedule/every", input.every.is_some()),
            ("/schedule/at", input.at.is_some()),
            ("/schedule/after", input.after.is_some()),
        ]
        .into_iter()
        .filter_map(|(pointer, is_given)| is_given.then_some(pointer))
        .collect();
        if let [first, second, ..] = given[..] {
            let (first, second) = (self.pointers.sent(first), self.pointers.sent(second));
            let message = format!("a job has one schedule, but `{first}` and `{second}` are two");
            self.faults.add(FieldProblem::new(second, "schedule_ambiguous", message));
            return None;
        }
        if input.phase.is_some() && input.every.is_none() {
            self.refuse("/schedule/phase", "phase_without_every", "a phase belongs to `every`");
            return None;
        }
        let schedule = self.one_schedule(input, called)?;
        match called {
            Some(called) if !called.fits(&schedule) => {
                let word = input.kind.as_deref().unwrap_or_default();
                let message = match schedule {
                    Schedule::None => format!("type {word} needs a schedule, and there is none"),
                    _ => format!("type {word} does not fit the schedule, which is {}", schedule_kind(&schedule)),
                };
                self.refuse("/schedule/type", "schedule_type_mismatch", message);
                None
            }
            _ => Some(schedule),
        }
    }

    fn one_schedule(&mut self, input: &ScheduleInput, called: Option<Called>) -> Option<Schedule> {
        let zone = input.timezone.as_deref().unwrap_or("UTC");
        let cron = |expression: &str| Schedule::Cron {
            expression: expression.to_owned(),
            zone: zone.to_owned(),
            dst_gap: DstGap::default(),
            dst_fold: DstFold::default(),
        };
        let schedule = match input {
            ScheduleInput { cron: Some(expression), .. } => cron(expression),
            ScheduleInput { every: Some(every), .. } => Schedule::Every {
                every_ms: self.span_of("/schedule/every", every)?,
                phase_ms: self.span("/schedule/phase", &input.phase, 0)?,
            },
            ScheduleInput { at: Some(at), .. } => Schedule::At { at: self.instant("/schedule/at", at)? },
            ScheduleInput { after: Some(after), .. } => {
                Schedule::After { delay_ms: self.span_of("/schedule/after", after)? }
            }
            ScheduleInput { text: Some(text), .. } if called == Some(Called::Cron) => cron(text),
            ScheduleInput { text: Some(text), .. }
                if called == Some(Called::After) && parse_duration_ms(text).is_ok() =>
            {
                Schedule::After { delay_ms: parse_duration_ms(text).unwrap_or_default() }
            }
            ScheduleInput { text: Some(text), .. } => match parse_text(text, zone) {
                Ok(schedule) => schedule,
                Err(error) => {
                    let canonical = if error.code.starts_with("zone") { "/schedule/timezone" } else { "/schedule" };
                    return self.refuse_schedule(canonical, error);
                }
            },
            _ => Schedule::None,
        };
        let Schedule::Cron { expression, zone, .. } = schedule else { return Some(schedule) };
        let dst_gap = self.dst::<DstGap>("/schedule/dst_gap", &input.dst_gap)?;
        let dst_fold = self.dst::<DstFold>("/schedule/dst_fold", &input.dst_fold)?;
        Some(Schedule::Cron { expression, zone, dst_gap, dst_fold })
    }

    fn dst<T: FromStr<Err = ScheduleError> + Default>(&mut self, canonical: &str, word: &Option<String>) -> Option<T> {
        match word.as_deref().map(str::parse).transpose() {
            Ok(rule) => Some(rule.unwrap_or_default()),
            Err(error) => self.refuse_schedule(canonical, error),
        }
    }

    pub(super) fn window(&mut self, input: &ScheduleInput) -> Option<Window> {
        let starts_at = self.optional_instant("/starts_at", &input.starts_at);
        let ends_at = self.optional_instant("/ends_at", &input.ends_at);
        let max_fires = match input.max_fires.map(u32::try_from).transpose() {
            Ok(max_fires) => max_fires,
            Err(_) => {
                self.refuse("/max_fires", "max_fires_invalid", format!("max_fires must be at most {}", u32::MAX));
                return None;
            }
        };
        Some(Window { starts_at: starts_at?, ends_at: ends_at?, max_fires })
    }
}
