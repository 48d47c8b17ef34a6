//! The assignment of parts to the processes that hold them.

use std::ops::Range;

/// The assignment of the parts of a graph to the processes that hold them, for any numbers of parts and processes.
///
/// With at least as many processes as parts, each process holds one part, and each part is held by consecutive
/// processes. With fewer processes than parts, each process holds a *group* of consecutive parts. A group has at least
/// one part and is held by at least one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartLayout {
    num_parts: usize,
    num_processes: usize,
}

impl PartLayout {
    /// Makes the layout of at least one part over at least one process.
    ///
    /// # Panics
    /// If a number is 0.
    pub fn new(num_parts: usize, num_processes: usize) -> Self {
        assert!(num_parts > 0 && num_processes > 0, "{num_parts} parts over {num_processes} processes");
        Self { num_parts, num_processes }
    }

    /// Returns the number of processes.
    pub fn num_processes(self) -> usize {
        self.num_processes
    }

    /// Returns the number of groups of parts.
    pub fn num_groups(self) -> usize {
        self.num_parts.min(self.num_processes)
    }

    /// Returns true if the same number of processes holds each group.
    pub fn is_even(self) -> bool {
        self.num_processes.is_multiple_of(self.num_groups())
    }

    /// Returns the group that a process holds.
    ///
    /// # Panics
    /// If `process` is not below the number of processes.
    pub fn group_of(self, process: usize) -> usize {
        assert!(process < self.num_processes, "process {process} of {}", self.num_processes);
        process * self.num_groups() / self.num_processes
    }

    /// Returns the processes that hold a group.
    pub fn processes_of(self, group: usize) -> Range<usize> {
        let first = |group: usize| (group * self.num_processes).div_ceil(self.num_groups());
        first(group)..first(group + 1)
    }

    /// Returns the parts of a group.
    pub fn parts_of(self, group: usize) -> Range<usize> {
        self.first_part(group)..self.first_part(group + 1)
    }

    /// Returns the first part of each group, and then the number of parts.
    pub fn starts(self) -> Vec<u32> {
        (0..=self.num_groups()).map(|group| self.first_part(group) as u32).collect()
    }

    fn first_part(self, group: usize) -> usize {
        group * self.num_parts / self.num_groups()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_in_one_group_and_every_process_holds_one() {
        for num_parts in 1..20 {
            for num_processes in 1..20 {
                let layout = PartLayout::new(num_parts, num_processes);
                let groups = 0..layout.num_groups();
                let parts: Vec<usize> = groups.clone().flat_map(|group| layout.parts_of(group)).collect();
                let processes: Vec<usize> = groups.clone().flat_map(|group| layout.processes_of(group)).collect();
                assert_eq!(parts, (0..num_parts).collect::<Vec<_>>());
                assert_eq!(processes, (0..num_processes).collect::<Vec<_>>());
                for group in groups {
                    let processes = layout.processes_of(group);
                    assert!(!layout.parts_of(group).is_empty() && !processes.is_empty());
                    assert!(processes.clone().all(|process| layout.group_of(process) == group));
                    assert_eq!(layout.starts()[group] as usize, layout.parts_of(group).start);
                    let even = num_processes / layout.num_groups();
                    assert!(!layout.is_even() || processes.len() == even);
                }
            }
        }
    }
}
