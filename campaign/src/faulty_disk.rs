//! A file system in memory whose operations fail or take long on request.

use anyhow::Context;
use fuser::{
    Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, Session, SessionACL, TimeOrNow, WriteFlags,
};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// The time for which the kernel remembers names and attributes. All changes come from the kernel itself.
const REMEMBERED: Duration = Duration::from_secs(3600);
const BLOCK: u32 = 4096;
/// The blocks that the disk reports as free: more than the programs under test write.
const FREE_BLOCKS: u64 = 1 << 20;

/// The operations of a [`FaultyDisk`] that fail or take long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DiskFault {
    /// After this number of writes, all of them fail with EIO. Files can still be removed.
    Writes { after: u64 },
    /// After this number of reads, all of them fail with EIO.
    Reads { after: u64 },
    /// Each write, sync and read takes this time longer.
    Slow(Duration),
}

/// Numbers of operations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Operations {
    /// Writes, syncs, new files and folders, and renames.
    pub(crate) writes: u64,
    pub(crate) reads: u64,
}

/// The operations that a disk has been asked for.
#[derive(Debug, Default)]
struct Counts {
    writes: AtomicU64,
    reads: AtomicU64,
}

/// A file system in memory. It is unmounted when the value is dropped.
pub(crate) struct FaultyDisk {
    path: PathBuf,
    fault: Arc<Mutex<Option<DiskFault>>>,
    counts: Arc<Counts>,
}

impl FaultyDisk {
    /// Mounts an empty disk at the folder `path`.
    ///
    /// # Errors
    /// This is not root, or the kernel has no FUSE.
    pub(crate) fn mount(path: &Path) -> anyhow::Result<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse").context("open /dev/fuse")?;
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
        mount(Some("campaign"), path, Some("fuse"), MsFlags::empty(), Some(options.as_str()))
            .with_context(|| format!("mount a disk at {}; this needs root", path.display()))?;
        let fault = Arc::new(Mutex::new(None));
        let counts = Arc::new(Counts::default());
        let disk = Self { path: path.to_owned(), fault: fault.clone(), counts: counts.clone() };
        let files = Files { tree: Mutex::new(Tree::new()), fault, counts };
        let session = Session::from_fd(files, device.into(), SessionACL::All, Config::default());
        let session = session.context("start a file system")?;
        // The thread ends when the disk is unmounted.
        std::thread::spawn(move || session.run());
        Ok(disk)
    }

    /// Sets the fault from now on; `None` repairs the disk. Counts operations anew.
    pub(crate) fn set(&self, fault: Option<DiskFault>) {
        self.counts.writes.store(0, Ordering::SeqCst);
        self.counts.reads.store(0, Ordering::SeqCst);
        *lock(&self.fault) = fault;
    }

    /// Returns the numbers of operations so far.
    pub(crate) fn counts(&self) -> Operations {
        Operations {
            writes: self.counts.writes.load(Ordering::SeqCst),
            reads: self.counts.reads.load(Ordering::SeqCst),
        }
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The content of a file or a folder.
enum Content {
    File(Vec<u8>),
    Folder(BTreeMap<OsString, INodeNo>),
}

/// A file or a folder.
struct Node {
    content: Content,
    mode: u16,
    changed: SystemTime,
}

/// All files and folders by their numbers. Removed ones stay, since they may be open.
struct Tree {
    nodes: BTreeMap<INodeNo, Node>,
}

impl Tree {
    fn new() -> Self {
        let mut tree = Self { nodes: BTreeMap::new() };
        tree.nodes.insert(INodeNo::ROOT, Node::new(Content::Folder(BTreeMap::new()), 0o755));
        tree
    }

    fn attributes(&self, number: INodeNo) -> Result<FileAttr, Errno> {
        let node = self.nodes.get(&number).ok_or(Errno::ENOENT)?;
        let (kind, size) = match &node.content {
            Content::File(bytes) => (FileType::RegularFile, bytes.len() as u64),
            Content::Folder(_) => (FileType::Directory, 0),
        };
        Ok(FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
            atime: node.changed,
            mtime: node.changed,
            ctime: node.changed,
            crtime: node.changed,
            kind,
            perm: node.mode,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK,
            flags: 0,
        })
    }

    fn folder(&mut self, number: INodeNo) -> Result<&mut BTreeMap<OsString, INodeNo>, Errno> {
        match self.nodes.get_mut(&number) {
            Some(Node { content: Content::Folder(entries), .. }) => Ok(entries),
            Some(_) => Err(Errno::ENOTDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn file(&mut self, number: INodeNo) -> Result<&mut Vec<u8>, Errno> {
        match self.nodes.get_mut(&number) {
            Some(Node { content: Content::File(bytes), .. }) => Ok(bytes),
            Some(_) => Err(Errno::EISDIR),
            None => Err(Errno::ENOENT),
        }
    }

    fn lookup(&mut self, parent: INodeNo, name: &OsStr) -> Result<INodeNo, Errno> {
        self.folder(parent)?.get(name).copied().ok_or(Errno::ENOENT)
    }

    fn add(&mut self, parent: INodeNo, name: &OsStr, content: Content, mode: u32) -> Result<FileAttr, Errno> {
        let number = INodeNo(INodeNo::ROOT.0 + self.nodes.len() as u64);
        if self.folder(parent)?.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        self.folder(parent)?.insert(name.to_owned(), number);
        self.nodes.insert(number, Node::new(content, (mode & 0o7777) as u16));
        self.attributes(number)
    }

    fn remove(&mut self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let number = self.lookup(parent, name)?;
        if let Some(Node { content: Content::Folder(entries), .. }) = self.nodes.get(&number)
            && !entries.is_empty()
        {
            return Err(Errno::ENOTEMPTY);
        }
        self.folder(parent)?.remove(name);
        Ok(())
    }

    fn rename(&mut self, from: (INodeNo, &OsStr), to: (INodeNo, &OsStr)) -> Result<(), Errno> {
        let number = self.lookup(from.0, from.1)?;
        if self.lookup(to.0, to.1).is_ok() {
            self.remove(to.0, to.1)?;
        }
        self.folder(from.0)?.remove(from.1);
        self.folder(to.0)?.insert(to.1.to_owned(), number);
        Ok(())
    }

    fn write(&mut self, number: INodeNo, offset: u64, data: &[u8]) -> Result<u32, Errno> {
        let file = self.file(number)?;
        let start = usize::try_from(offset).map_err(|_| Errno::EFBIG)?;
        let end = start + data.len();
        file.resize(file.len().max(end), 0);
        file[start..end].copy_from_slice(data);
        Ok(data.len() as u32)
    }

    /// Returns the entries of a folder after the first `offset`.
    fn entries(&mut self, number: INodeNo, offset: u64) -> Result<Vec<(INodeNo, FileType, OsString)>, Errno> {
        let own = [(number, OsString::from(".")), (number, OsString::from(".."))];
        let others: Vec<_> = self.folder(number)?.iter().map(|(name, &at)| (at, name.clone())).collect();
        let all = own.into_iter().chain(others).skip(offset as usize);
        let kind = |number| self.attributes(number).map(|attributes| attributes.kind);
        all.map(|(number, name)| Ok((number, kind(number)?, name))).collect()
    }
}

impl Node {
    fn new(content: Content, mode: u16) -> Self {
        Self { content, mode, changed: SystemTime::now() }
    }
}

/// The file system as the kernel sees it.
struct Files {
    tree: Mutex<Tree>,
    fault: Arc<Mutex<Option<DiskFault>>>,
    counts: Arc<Counts>,
}

impl Files {
    /// Counts a write or a sync, and lets it fail or take long.
    fn before_write(&self) -> Result<(), Errno> {
        let number = self.counts.writes.fetch_add(1, Ordering::SeqCst);
        let fails = matches!(*lock(&self.fault), Some(DiskFault::Writes { after }) if number >= after);
        self.wait_or_fail(fails)
    }

    /// Counts a read, and lets it fail or take long.
    fn before_read(&self) -> Result<(), Errno> {
        let number = self.counts.reads.fetch_add(1, Ordering::SeqCst);
        let fails = matches!(*lock(&self.fault), Some(DiskFault::Reads { after }) if number >= after);
        self.wait_or_fail(fails)
    }

    fn wait_or_fail(&self, fails: bool) -> Result<(), Errno> {
        let fault = *lock(&self.fault);
        if let Some(DiskFault::Slow(pause)) = fault {
            std::thread::sleep(pause);
        }
        if fails { Err(Errno::EIO) } else { Ok(()) }
    }

    fn sync(&self, reply: ReplyEmpty) {
        answer(self.before_write(), reply);
    }
}

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

fn answer_entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attributes) => reply.entry(&REMEMBERED, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut tree = lock(&self.tree);
        let found = tree.lookup(parent, name).and_then(|number| tree.attributes(number));
        answer_entry(found, reply);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match lock(&self.tree).attributes(number) {
            Ok(attributes) => reply.attr(&REMEMBERED, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut tree = lock(&self.tree);
        let changed = size.map_or(Ok(()), |size| {
            self.before_write()?;
            tree.file(number).map(|file| file.resize(size as usize, 0))
        });
        if let (Some(mode), Some(node)) = (mode, tree.nodes.get_mut(&number)) {
            node.mode = (mode & 0o7777) as u16;
        }
        match changed.and_then(|()| tree.attributes(number)) {
            Ok(attributes) => reply.attr(&REMEMBERED, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let content = Content::Folder(BTreeMap::new());
        let made = self.before_write().and_then(|()| lock(&self.tree).add(parent, name, content, mode & !umask));
        answer_entry(made, reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(lock(&self.tree).remove(parent, name), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(lock(&self.tree).remove(parent, name), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if !flags.is_empty() {
            return reply.error(Errno::EINVAL);
        }
        let renamed = self.before_write();
        answer(renamed.and_then(|()| lock(&self.tree).rename((parent, name), (new_parent, new_name))), reply);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: i32, reply: ReplyCreate) {
        let content = Content::File(Vec::new());
        match self.before_write().and_then(|()| lock(&self.tree).add(parent, name, content, mode & !umask)) {
            Ok(attributes) => {
                reply.created(&REMEMBERED, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Without FOPEN_KEEP_CACHE, the kernel reads a file again after it was opened again.
        reply.opened(FileHandle(0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut tree = lock(&self.tree);
        match self.before_read().and_then(|()| tree.file(number)) {
            Ok(file) => {
                let start = (offset as usize).min(file.len());
                let end = start.saturating_add(size as usize).min(file.len());
                reply.data(&file[start..end]);
            }
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.before_write().and_then(|()| lock(&self.tree).write(number, offset, data)) {
            Ok(written) => reply.written(written),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(reply);
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        match lock(&self.tree).entries(number, offset) {
            Ok(entries) => {
                for (position, (number, kind, name)) in (offset + 1..).zip(entries) {
                    // True if the reply is full.
                    if reply.add(number, position, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(FREE_BLOCKS, FREE_BLOCKS, FREE_BLOCKS, FREE_BLOCKS, FREE_BLOCKS, BLOCK, 255, BLOCK);
    }
}
