//! The edges of a batch on a device.

use cubecl::prelude::*;
use cubecl::server::Handle;

use super::matrix::array;
use super::upload::upload;

/// The maximum number of edges that one task sums. Rows with more (hubs) are cut into as many tasks as they need, so
/// that a hub occupies the whole device instead of a few of its threads.
const EDGES_PER_TASK: u32 = 256;

/// A CSR on a device: the edges by destination, or, transposed, by source. Kernels can work on any prefix of its rows.
#[derive(Clone, Debug)]
pub struct DeviceEdges {
    pub(crate) indptr: Handle,
    pub(crate) indices: Handle,
    /// For transposed edges, the position of each in the original CSR.
    pub(crate) positions: Option<Handle>,
    num_rows: usize,
    num_edges: usize,
    hubs: Option<Hubs>,
}

/// The rows that are cut into tasks.
#[derive(Clone, Debug)]
struct Hubs {
    /// The hubs' rows, ascending.
    rows: Vec<u32>,
    /// The first task of each hub, followed by the number of all tasks.
    tasks_of: Vec<u32>,
    edges_per_task: u32,
    /// `rows` on the device.
    device_rows: Handle,
    /// `tasks_of` on the device.
    device_tasks_of: Handle,
    /// The first edge, the end and the row of each task.
    tasks: Handle,
}

/// The hubs in a prefix of the rows.
pub(crate) struct HubsOfPrefix<'a> {
    hubs: &'a Hubs,
    pub(crate) num_hubs: usize,
    pub(crate) num_tasks: usize,
}

impl DeviceEdges {
    /// Copies a CSR to a device.
    ///
    /// # Shapes
    /// - `indptr`: `[num_rows + 1]`, from 0 and never decreasing
    /// - `indices`: `[num_edges]`
    /// - `positions`: `[num_edges]`, if the CSR is a transposed one
    ///
    /// # Panics
    /// Panics if the lengths do not fit each other.
    pub fn new<R: Runtime>(device: &R::Device, indptr: &[u32], indices: &[u32], positions: Option<&[u32]>) -> Self {
        Self::with_tasks_of::<R>(EDGES_PER_TASK, device, indptr, indices, positions)
    }

    /// Like [`DeviceEdges::new`], with another maximum number of edges per task.
    ///
    /// # Panics
    /// Those of [`DeviceEdges::new`], and if `edges_per_task` is 0.
    fn with_tasks_of<R: Runtime>(
        edges_per_task: u32,
        device: &R::Device,
        indptr: &[u32],
        indices: &[u32],
        positions: Option<&[u32]>,
    ) -> Self {
        assert_eq!(indptr.last().map(|&end| end as usize), Some(indices.len()), "the end of a CSR's rows");
        assert!(positions.is_none_or(|positions| positions.len() == indices.len()), "positions of a CSR's edges");
        assert!(edges_per_task > 0, "tasks of no edges");
        Self {
            indptr: upload::<R, _>(device, indptr),
            indices: upload::<R, _>(device, indices),
            positions: positions.map(|positions| upload::<R, _>(device, positions)),
            num_rows: indptr.len() - 1,
            num_edges: indices.len(),
            hubs: Hubs::find::<R>(device, indptr, edges_per_task),
        }
    }

    /// Returns the number of rows.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Returns the number of edges.
    pub fn num_edges(&self) -> usize {
        self.num_edges
    }

    /// Returns the hubs in the first `num_rows` rows, if there are any.
    pub(crate) fn hubs(&self, num_rows: usize) -> Option<HubsOfPrefix<'_>> {
        let hubs = self.hubs.as_ref()?;
        let num_hubs = hubs.rows.partition_point(|&row| (row as usize) < num_rows);
        let num_tasks = hubs.tasks_of[num_hubs] as usize;
        (num_hubs > 0).then_some(HubsOfPrefix { hubs, num_hubs, num_tasks })
    }

    /// Returns the edges as an argument of a kernel.
    pub(crate) fn arg<R: Runtime>(&self) -> EdgesLaunch<R> {
        let positions = self.positions.as_ref().unwrap_or(&self.indices);
        EdgesLaunch::new(
            array(&self.indptr, self.num_rows + 1),
            array(&self.indices, self.num_edges),
            array(positions, self.num_edges),
            self.hubs.as_ref().map_or(u32::MAX, |hubs| hubs.edges_per_task),
            self.positions.is_some(),
        )
    }
}

impl Hubs {
    /// Finds the rows with more than `edges_per_task` edges, and cuts them into tasks.
    fn find<R: Runtime>(device: &R::Device, indptr: &[u32], edges_per_task: u32) -> Option<Self> {
        let mut rows = Vec::new();
        let mut tasks_of = vec![0];
        let mut tasks = Vec::new();
        for (row, ends) in indptr.windows(2).enumerate() {
            if ends[1] - ends[0] > edges_per_task {
                for start in (ends[0]..ends[1]).step_by(edges_per_task as usize) {
                    tasks.extend([start, ends[1].min(start.saturating_add(edges_per_task)), row as u32]);
                }
                rows.push(row as u32);
                tasks_of.push(tasks.len() as u32 / 3);
            }
        }
        (!rows.is_empty()).then(|| Self {
            device_rows: upload::<R, _>(device, &rows),
            device_tasks_of: upload::<R, _>(device, &tasks_of),
            tasks: upload::<R, _>(device, &tasks),
            edges_per_task,
            rows,
            tasks_of,
        })
    }
}

impl HubsOfPrefix<'_> {
    /// Returns the tasks as an argument of a kernel.
    pub(crate) fn arg<R: Runtime>(&self) -> HubTasksLaunch<R> {
        let Hubs { rows, device_rows, device_tasks_of, tasks, tasks_of, .. } = self.hubs;
        let num_tasks = tasks_of[rows.len()] as usize;
        HubTasksLaunch::new(
            array(device_rows, rows.len()),
            array(device_tasks_of, tasks_of.len()),
            array(tasks, 3 * num_tasks),
            self.num_hubs,
            self.num_tasks,
        )
    }
}

/// Edges in the form that kernels take.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct Edges {
    pub(crate) indptr: Array<u32>,
    pub(crate) indices: Array<u32>,
    positions: Array<u32>,
    /// The maximum number of edges of a row that is not cut into tasks.
    edges_per_task: u32,
    #[cube(comptime)]
    transposed: bool,
}

#[cube]
impl Edges {
    pub(crate) fn start(&self, row: usize) -> usize {
        self.indptr[row] as usize
    }

    pub(crate) fn degree(&self, row: usize) -> u32 {
        self.indptr[row + 1] - self.indptr[row]
    }

    /// Returns true if one task sums the row.
    pub(crate) fn is_one_task(&self, row: usize) -> bool {
        self.degree(row) <= self.edges_per_task
    }

    /// Returns the other end of the edge at `at`.
    pub(crate) fn other(&self, at: usize) -> usize {
        self.indices[at] as usize
    }

    /// Returns the source and the destination of an edge between a row and `other`.
    pub(crate) fn ends(&self, row: usize, other: usize) -> (usize, usize) {
        if comptime!(self.transposed) { (row, other) } else { (other, row) }
    }

    /// Returns the number of the edge at `at` in the original, not transposed CSR.
    pub(crate) fn number(&self, at: usize) -> usize {
        if comptime!(self.transposed) { self.positions[at] as usize } else { at }
    }
}

/// The tasks of hubs in the form that kernels take.
#[derive(CubeType, CubeLaunch)]
pub(crate) struct HubTasks {
    rows: Array<u32>,
    tasks_of: Array<u32>,
    tasks: Array<u32>,
    pub(crate) num_hubs: usize,
    pub(crate) num_tasks: usize,
}

#[cube]
impl HubTasks {
    /// Returns the row of a hub.
    pub(crate) fn row_of_hub(&self, hub: usize) -> usize {
        self.rows[hub] as usize
    }

    /// Returns the first task of a hub. It is also the end of the tasks of the hub before.
    pub(crate) fn first_task(&self, hub: usize) -> usize {
        self.tasks_of[hub] as usize
    }

    /// Returns the first edge of a task.
    pub(crate) fn start(&self, task: usize) -> usize {
        self.tasks[3 * task] as usize
    }

    /// Returns the end of a task's edges.
    pub(crate) fn end(&self, task: usize) -> usize {
        self.tasks[3 * task + 1] as usize
    }

    /// Returns the row of a task.
    pub(crate) fn row(&self, task: usize) -> usize {
        self.tasks[3 * task + 2] as usize
    }
}
