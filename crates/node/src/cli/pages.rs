//! Lists that go over several pages.

use super::exit::Failure;
use super::output::Output;
use campanile_client::wire::Page;
use std::time::Duration;

/// Items on one page: as many as the server gives.
const PAGE: u32 = campanile_model::limits::PAGE_ITEMS_MAX as u32;
/// Below this, nobody wants to see that something is going on.
const PATIENCE: Duration = Duration::from_millis(400);

/// Reads pages until `wanted` items are there or no more exist. A page may be short or empty although there is more.
pub async fn collect<T>(
    wanted: usize,
    out: &Output,
    page: impl AsyncFn(u32, Option<String>) -> Result<Page<T>, campanile_client::Error>,
) -> Result<Page<T>, Failure> {
    let mut all = Page { data: Vec::new(), has_more: false, next_cursor: None };
    {
        let mut reading = std::pin::pin!(async {
            loop {
                let limit = PAGE.min((wanted - all.data.len()).try_into().unwrap_or(PAGE));
                let next = page(limit, all.next_cursor.take()).await?;
                all.data.extend(next.data);
                (all.has_more, all.next_cursor) = (next.has_more, next.next_cursor);
                if !all.has_more || all.data.len() >= wanted {
                    return Ok::<(), Failure>(());
                }
            }
        });
        match tokio::time::timeout(PATIENCE, &mut reading).await {
            Ok(read) => read?,
            Err(_) => {
                let bar = out.progress(None, "reading");
                let read = reading.await;
                bar.finish_and_clear();
                read?;
            }
        }
    }
    Ok(all)
}

/// Says that there is nothing, or more than is shown.
pub fn tell<T>(page: &Page<T>, none: &str, out: &Output) {
    if page.data.is_empty() {
        out.chat(none);
    } else if page.has_more && out.is_table() {
        out.chat(&format!("the newest {}; there are more: --limit", page.data.len()));
    }
}
