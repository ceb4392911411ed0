//! `SELECT k, raptors_mean(emb) … GROUP BY k` beside the same said with DataFusion's own functions, and
//! similarities beside its own: both in turn, medians. Build it with `--release`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{FixedSizeListArray, Float32Array, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{SessionConfig, SessionContext};

const ROWS: usize = 1_000_000;
const WIDTH: usize = 64;
const KEYS: i64 = 10_000;
const PARTITIONS: usize = 2;
const BATCH: usize = 8192;

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

fn table() -> Result<MemTable> {
    let item = Arc::new(Field::new_list_field(DataType::Float32, true));
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("emb", DataType::FixedSizeList(Arc::clone(&item), WIDTH as i32), true),
    ]));
    let mut state = 88172645463325252;
    let mut parts = vec![Vec::new(); PARTITIONS];
    for (n, from) in (0..ROWS).step_by(BATCH).enumerate() {
        let rows = BATCH.min(ROWS - from);
        let keys = Int64Array::from_iter_values(
            (0..rows).map(|_| (random(&mut state) >> 33) as i64 % KEYS),
        );
        let values = Float32Array::from_iter_values(
            (0..rows * WIDTH).map(|_| (random(&mut state) >> 40) as f32 / 65536.0 - 128.0),
        );
        let emb = FixedSizeListArray::new(Arc::clone(&item), WIDTH as i32, Arc::new(values), None);
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(emb)])?;
        parts[n % PARTITIONS].push(batch);
    }
    MemTable::try_new(schema, parts)
}

async fn timed(context: &SessionContext, query: &str, rows: usize) -> Result<Duration> {
    let start = Instant::now();
    let batches = context.sql(query).await?.collect().await?;
    let taken = start.elapsed();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows);
    Ok(taken)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

async fn compared(
    context: &SessionContext,
    what: &str,
    queries: [&str; 2],
    rows: usize,
) -> Result<()> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..9 {
        for (query, times) in queries.iter().zip(&mut times) {
            times.push(timed(context, query, rows).await?);
        }
    }
    let [ours, own] = times.map(median);
    eprintln!("{what}: ours {ours:.0} ms, DataFusion's own {own:.0} ms, {:.1}x", own / ours);
    Ok(())
}

fn main() -> Result<()> {
    let config = SessionConfig::new().with_target_partitions(PARTITIONS);
    let mut context = SessionContext::new_with_config(config);
    raptors_arrow::engine::datafusion::register_all(&mut context)?;
    context.register_table("t", Arc::new(table()?))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(PARTITIONS).build()?;
    let own: Vec<String> = (1..=WIDTH).map(|i| format!("avg(emb[{i}])")).collect();
    let own = format!("SELECT k, {} FROM t GROUP BY k", own.join(", "));
    let ours = "SELECT k, raptors_mean(emb) FROM t GROUP BY k";
    let query: Vec<String> = (0..WIDTH).map(|i| format!("{}.5", i % 7)).collect();
    let query = query.join(", ");
    runtime.block_on(async {
        compared(&context, "mean of groups", [ours, &own], KEYS as usize).await?;
        let ours = format!("SELECT raptors_cosine_similarity(emb, [{query}]) FROM t");
        let own = format!("SELECT 1 - cosine_distance(emb, [{query}]) FROM t");
        compared(&context, "cosine similarity", [&ours, &own], ROWS).await
    })
}
