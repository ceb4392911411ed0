//! One pass over a matrix: the tree of steps and sinks, planned and run.

use std::any::Any;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_schema::DataType;

use super::chained;
use super::whole::WholeSink;
use super::{LEAF_ROWS, Nulls, RowTile, Sink, SinkParts, Step, Stepped};
use crate::compute::Value;
use crate::dispatch::{Family, Level, Plan, Work, machine, run};
use crate::error::Result;
use crate::matrix::{self, Matrix, Scratch, steps};
use crate::memory::{self, Gather as _};

/// Elements of a tile: two buffers of float32, or one of float64, are a 32 KiB L1.
const TILE: usize = 4096;

/// Rows of a tile that statistics of columns take at once, at least: those that are added together.
const ROWS_TOGETHER: usize = 32;

/// Tasks of a pass at most: what each of them gives is held until all have ended.
const MOST_TASKS: usize = 1 << 14;

/// A pass over a matrix.
pub(crate) struct Fused<'a> {
    x: &'a Matrix,
    /// Pieces of the rows that lie one behind the other: number of the first, how many, and bytes.
    chunks: Vec<(usize, usize, &'a [u8])>,
    nodes: Vec<Node<'a>>,
    sinks: Vec<Box<dyn Sink + 'a>>,
    /// Bytes that are read of operands.
    operand_bytes: usize,
}

/// A node of a chain: what is there, and what follows.
struct Node<'a> {
    /// What makes it; none for the matrix itself.
    step: Option<Box<dyn Step + 'a>>,
    element: DataType,
    nulls: Nulls,
    /// Whether a step before made null rows of rows with a null.
    whole_rows: bool,
    children: Vec<usize>,
    sinks: Vec<usize>,
}

impl<'a> Fused<'a> {
    /// The node of the matrix itself.
    pub(crate) const ROOT: usize = 0;

    /// A pass without steps over `x`; `None` if its rows do not lie one behind the other.
    pub(crate) fn new(x: &'a Matrix) -> Result<Option<Self>> {
        let Some(chunks) = x.row_bytes() else { return Ok(None) };
        if x.rows() == 0 || x.width() == 0 {
            return Ok(None);
        }
        let root = Node {
            step: None,
            element: x.element_type().clone(),
            nulls: Nulls::of(x)?,
            whole_rows: false,
            children: Vec::new(),
            sinks: Vec::new(),
        };
        Ok(Some(Self { x, chunks, nodes: vec![root], sinks: Vec::new(), operand_bytes: 0 }))
    }

    /// The nulls at a node.
    pub(in crate::compute) fn nulls(&self, node: usize) -> &Nulls {
        &self.nodes[node].nulls
    }

    /// Adds a step after a node, which reads so many bytes of operands, and gives its node.
    pub(in crate::compute) fn step(
        &mut self,
        node: usize,
        stepped: Stepped<'a>,
        operand_bytes: usize,
    ) -> usize {
        let Stepped { step, to: element, nulls, whole_rows } = stepped;
        let whole_rows = whole_rows || self.nodes[node].whole_rows;
        let made = self.nodes.len();
        let (children, sinks) = (Vec::new(), Vec::new());
        self.nodes.push(Node { step: Some(step), element, nulls, whole_rows, children, sinks });
        self.nodes[node].children.push(made);
        self.operand_bytes = self.operand_bytes.saturating_add(operand_bytes);
        made
    }

    /// Adds a sink at a node, which reads so many bytes of operands: the next result.
    pub(in crate::compute) fn sink(
        &mut self,
        node: usize,
        sink: Box<dyn Sink + 'a>,
        operand_bytes: usize,
    ) {
        self.nodes[node].sinks.push(self.sinks.len());
        self.sinks.push(sink);
        self.operand_bytes = self.operand_bytes.saturating_add(operand_bytes);
    }

    /// Keeps what is at a node: the next result.
    pub(crate) fn keep(&mut self, node: usize) -> Result<()> {
        let Node { element, nulls, whole_rows, .. } = &self.nodes[node];
        let sink = WholeSink::new(self.x, element, nulls.clone(), *whole_rows)?;
        self.sink(node, Box::new(sink), 0);
        Ok(())
    }

    /// The bytes that move.
    pub(crate) fn work(&self) -> Work {
        let written = self.sinks.iter().map(|sink| sink.bytes()).fold(0, usize::saturating_add);
        let bytes_read = self.x.bytes().saturating_add(self.operand_bytes);
        let is_reduced = written < bytes_read / 2;
        let family = if is_reduced { Family::Reduction } else { Family::Elementwise };
        Work { family, bytes_read, bytes_written: written, has_vdsp: false }
    }

    /// Rows of a task, and of a tile.
    fn rows_of(&self, plan: &Plan) -> (usize, usize) {
        let (rows, width) = (self.x.rows(), self.x.width());
        let by_columns = self.sinks.iter().any(|sink| sink.is_by_columns());
        let per_row = self.work().bytes().div_ceil(rows).max(1);
        let task = (plan.task_bytes / per_row).max(rows.div_ceil(MOST_TASKS)).max(1);
        let tile = (TILE / width).max(1);
        match by_columns {
            true => (task.next_multiple_of(LEAF_ROWS), tile.next_multiple_of(ROWS_TOGETHER)),
            false => (task, tile),
        }
    }

    /// Whether there are tasks enough for the threads.
    pub(crate) fn keeps_busy(&self, plan: &Plan) -> bool {
        self.x.rows().div_ceil(self.rows_of(plan).0) >= plan.threads
    }

    /// The results, in the order of the sinks; `None` if one of them does not fit.
    pub(crate) fn run(self, plan: &Plan) -> Result<Option<Vec<Value>>> {
        let (of_task, of_tile) = self.rows_of(plan);
        let Self { x, chunks, nodes, mut sinks, .. } = self;
        let ranges: Vec<_> = steps(0..x.rows(), of_task).gather();
        let mut tasks: Vec<(Range<usize>, SinkParts<'_>)> =
            ranges.iter().map(|rows| (rows.clone(), Vec::new())).gather();
        for sink in &mut sinks {
            let parts = sink.split(&ranges, plan.store)?;
            tasks.iter_mut().zip(parts).for_each(|((_, all), part)| all.push(part));
        }
        let failed = AtomicBool::new(false);
        let joined: Vec<_> = (0..nodes.len()).map(|node| joined(&nodes, node)).collect();
        let pass = FusedPass {
            chunks: &chunks,
            nodes: &nodes,
            joined: &joined,
            width: x.width(),
            size: matrix::size_of_element(x.element_type()).unwrap_or(8),
            of_tile,
            level: plan.level(machine()),
            failed: &failed,
        };
        run::each(
            plan,
            tasks,
            || Workspace::new(&nodes, &joined),
            |workspace, (rows, mut parts)| {
                pass.run_task(rows, &mut parts, workspace);
                parts.into_iter().for_each(|part| part.end());
            },
        )?;
        if failed.into_inner() {
            return Ok(None);
        }
        sinks.into_iter().map(Sink::finish).collect()
    }
}

/// What the steps from a node on do in one loop, and the node where it ends.
type Joined<'p> = Option<(Box<dyn Step + 'p>, usize)>;

/// The step of a node and those that follow, as long as nobody else wants what is between them, and
/// one loop can run them.
fn joined<'p>(nodes: &'p [Node<'_>], first: usize) -> Joined<'p> {
    let element = &nodes[first].element;
    let step = |node: usize| nodes[node].step.as_deref().filter(|step| step.operation().is_some());
    let mut steps = vec![step(first)?];
    let mut last = first;
    while let ([next], []) = (&nodes[last].children[..], &nodes[last].sinks[..])
        && chained::takes_more(steps.len())
        && let Some(step) = step(*next)
    {
        steps.push(step);
        last = *next;
    }
    Some((chained::chained(&steps, element)?, last))
}

/// A pass that is planned.
struct FusedPass<'p, 'a> {
    chunks: &'p [(usize, usize, &'a [u8])],
    nodes: &'p [Node<'a>],
    joined: &'p [Joined<'p>],
    width: usize,
    /// Bytes of an element of the matrix.
    size: usize,
    /// Rows of a tile.
    of_tile: usize,
    level: Level,
    /// Whether some result did not fit.
    failed: &'p AtomicBool,
}

/// What a thread keeps: memory of each step, and buffers that are free.
struct Workspace {
    steps: Vec<Box<dyn Any>>,
    free: Vec<HeldTile>,
    /// Sums of the rows of a tile.
    sums: Vec<f64>,
}

impl Workspace {
    fn new(nodes: &[Node<'_>], joined: &[Joined<'_>]) -> Self {
        let steps = nodes.iter().zip(joined).map(|(node, joined)| match (joined, &node.step) {
            (Some((step, _)), _) => step.workspace(),
            (None, Some(step)) => step.workspace(),
            (None, None) => Box::new(()),
        });
        Self { steps: steps.gather(), free: Vec::new(), sums: Vec::new() }
    }
}

/// What a step made of a tile.
#[derive(Default)]
struct HeldTile {
    /// Words, so that elements of any type are aligned.
    words: Scratch<u64>,
    bytes: usize,
    missing: Vec<bool>,
}

/// A tile: of the matrix itself, or held.
enum TileInput<'t> {
    Lent(&'t [u8], &'t [u8]),
    HeldTile(HeldTile),
}

impl TileInput<'_> {
    fn tile<'t>(&'t self, rows: &Range<usize>, width: usize, nulls: &'t Nulls) -> RowTile<'t> {
        let (bytes, missing, ahead) = match self {
            Self::Lent(bytes, ahead) => (*bytes, &[][..], *ahead),
            Self::HeldTile(held) => (held.tile(), &held.missing[..], &[][..]),
        };
        RowTile { first: rows.start, rows: rows.len(), width, bytes, nulls, missing, ahead }
    }
}

impl FusedPass<'_, '_> {
    fn run_task(&self, rows: Range<usize>, parts: &mut SinkParts<'_>, workspace: &mut Workspace) {
        let row_bytes = self.width * self.size;
        let from = self.chunks.partition_point(|(first, len, _)| first + len <= rows.start);
        for (first, len, bytes) in &self.chunks[from..] {
            if *first >= rows.end {
                break;
            }
            let held = rows.start.max(*first)..rows.end.min(first + len);
            for rows in steps(held, self.of_tile) {
                let (tile, ahead) =
                    bytes[(rows.start - first) * row_bytes..].split_at(rows.len() * row_bytes);
                self.visit(Fused::ROOT, &rows, TileInput::Lent(tile, ahead), parts, workspace);
            }
        }
    }

    fn visit(
        &self,
        node: usize,
        rows: &Range<usize>,
        input: TileInput<'_>,
        parts: &mut SinkParts<'_>,
        workspace: &mut Workspace,
    ) {
        let Node { nulls, children, sinks, .. } = &self.nodes[node];
        let (len, width) = (rows.len(), self.width);
        let mut failed = false;
        let mut input = Some(input);
        if let Some(input) = &input {
            let tile = input.tile(rows, width, nulls);
            for sink in sinks {
                failed |= parts[*sink].take(self.level, &tile);
            }
        }
        for (i, child) in children.iter().enumerate() {
            let (step, last) = match (&self.joined[*child], &self.nodes[*child].step) {
                (Some((step, last)), _) => (&**step, *last),
                (None, Some(step)) => (&**step, *child),
                (None, None) => continue,
            };
            let Node { element, children: next, sinks: ends, .. } = &self.nodes[last];
            if let (Some(input), [end], []) = (&input, &ends[..], &next[..])
                && parts[*end].takes_row_sums()
            {
                let tile = input.tile(rows, width, nulls);
                let Workspace { steps, sums, .. } = &mut *workspace;
                if step.row_sums(self.level, &tile, &mut *steps[*child], sums) {
                    failed |= parts[*end].take_row_sums(self.level, rows.start, sums);
                    continue;
                }
            }
            let mut made = workspace.free.pop().unwrap_or_default();
            made.resize(len * width * matrix::size_of_element(element).unwrap_or(8));
            if let Some(input) = &input {
                let tile = input.tile(rows, width, nulls);
                memory::extend_from_slice(&mut made.missing, tile.missing);
                let HeldTile { words, bytes, missing } = &mut made;
                let out = &mut pulp::bytemuck::cast_slice_mut(words)[..*bytes];
                failed |= step.run(self.level, &tile, &mut *workspace.steps[*child], out, missing);
            }
            // A buffer that nobody needs any more is the next one: it is in L1.
            if i + 1 == children.len()
                && let Some(TileInput::HeldTile(done)) = input.take()
            {
                workspace.free.push(done);
            }
            self.visit(last, rows, TileInput::HeldTile(made), parts, workspace);
        }
        if let Some(TileInput::HeldTile(done)) = input {
            workspace.free.push(done);
        }
        if failed {
            self.failed.store(true, Ordering::Relaxed);
        }
    }
}

impl HeldTile {
    fn resize(&mut self, bytes: usize) {
        let words = bytes.div_ceil(8).max(self.words.len());
        memory::resize(&mut self.words, words, 0);
        self.bytes = bytes;
        self.missing.clear();
    }

    fn tile(&self) -> &[u8] {
        &pulp::bytemuck::cast_slice(&self.words)[..self.bytes]
    }
}
