//! Outputs replace regular files, directly or through links, and refuse anything else.

use edgecut_output::testing::ForeignEntries;
use edgecut_output::{
    OutputFile, OwnEntries, TemporaryFolder, check_output, destination, host_tag, remove_abandoned, write_output,
};
use proptest::prelude::*;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_file_is_replaced_when_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    write_output(&path, b"old").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let output = OutputFile::create(&path).unwrap();
    output.file().write_all(b"ne").unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    output.file().write_all(b"w").unwrap();
    output.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    drop(OutputFile::create(&path).unwrap());
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn the_target_of_a_link_is_replaced_and_the_link_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("disk")).unwrap();
    let target = dir.path().join("disk/model");
    let link = dir.path().join("link");
    let second = dir.path().join("second");
    symlink("disk/model", &link).unwrap();
    symlink(&link, &second).unwrap();
    // In the first round the target does not exist.
    for content in ["first", "next"] {
        check_output(&second).unwrap();
        write_output(&second, content.as_bytes()).unwrap();
        assert!([&link, &second].iter().all(|path| path.is_symlink()));
        assert!(target.symlink_metadata().unwrap().is_file());
        assert_eq!(fs::read_to_string(&target).unwrap(), content);
    }
    assert_eq!(names(dir.path()), ["disk", "link", "second"]);
    assert_eq!(names(&dir.path().join("disk")), ["model"]);
}

#[test]
fn anything_but_a_regular_file_is_refused_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("folder")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("fifo"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let _socket = UnixListener::bind(dir.path().join("socket")).unwrap();
    symlink("/dev/null", dir.path().join("null")).unwrap();
    symlink("folder", dir.path().join("to_folder")).unwrap();
    symlink("circle", dir.path().join("circle")).unwrap();
    let before = names(dir.path());
    for (name, why) in [
        ("folder", "it is a directory"),
        ("to_folder", "it is a directory"),
        ("fifo", "it is a pipe"),
        ("socket", "it is a socket"),
        ("null", "it is a device"),
        ("/dev/full", "it is a device"),
        ("/dev/stdin/..", "Not a directory"),
        ("circle", "symbolic links"),
        ("absent/file", "absent does not exist: create it"),
        ("folder/..", "it is a directory"),
    ] {
        let checked = check_output(&dir.path().join(name)).unwrap_err().to_string();
        let written = write_output(&dir.path().join(name), b"x").unwrap_err().to_string();
        assert!(checked.contains(why) && written.contains(why), "{name}: {checked}; {written}");
    }
    assert_eq!(names(dir.path()), before);
    assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn a_device_that_appears_meanwhile_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    let output = OutputFile::create(&path).unwrap();
    let _socket = UnixListener::bind(&path).unwrap();
    assert!(output.commit().unwrap_err().to_string().contains("it is a socket"));
    assert_eq!(names(dir.path()), ["model"]);
}

#[test]
fn files_of_killed_processes_are_removed_and_those_of_living_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model");
    let living = OutputFile::create(&path).unwrap();
    let dead = format!(".model.{}01234567.partial", host_tag());
    // The last is that of another machine, whose process may be alive.
    let others = [".model.x.partial", &format!(".other.{}01234567.partial", host_tag()), &of_another_machine(&dead)];
    others.iter().chain([&dead.as_str()]).for_each(|name| fs::write(dir.path().join(name), "half").unwrap());
    remove_abandoned(&path).unwrap();
    let left = names(dir.path());
    assert!(!left.contains(&dead) && living.temporary().exists(), "{left:?}");
    assert!(others.iter().all(|name| left.iter().any(|found| found == name)), "{left:?}");
    living.commit().unwrap();
}

#[test]
fn a_plain_name_is_a_file_of_the_current_folder() {
    assert_eq!(destination(Path::new("model")).unwrap(), Path::new("model"));
    assert!(destination(Path::new("..")).is_err());
}

/// Returns the name that another machine would give to a temporary file or folder.
fn of_another_machine(name: &str) -> String {
    let tag = u32::from_str_radix(host_tag(), 16).unwrap();
    name.replace(host_tag(), &format!("{:08x}", !tag))
}

#[test]
fn temporary_folders_of_ended_processes_of_this_machine_are_removed() {
    let root = tempfile::tempdir().unwrap();
    // Process ids are below 2^22, so 4194999 is never alive; process 1 always is.
    let dead = format!("rows-{}-4194999-0", host_tag());
    let of_an_earlier_process_with_our_id = format!("rows-{}-{}-7", host_tag(), std::process::id());
    let others = [
        of_another_machine(&dead),
        format!("rows-{}-1-0", host_tag()),
        format!("rows-{}-4194999", host_tag()),
        format!("columns-{}-4194999-0", host_tag()),
        "rows-4194999-0".to_owned(),
    ];
    for name in others.iter().chain([&dead, &of_an_earlier_process_with_our_id]) {
        fs::create_dir(root.path().join(name)).unwrap();
        fs::write(root.path().join(name).join("0.npy"), "").unwrap();
    }
    // The folder of a dead process that is a link may point anywhere.
    let elsewhere = tempfile::tempdir().unwrap();
    fs::write(elsewhere.path().join("0.npy"), "").unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), root.path().join(format!("rows-{}-4194999-1", host_tag()))).unwrap();

    let own = OwnEntries::forms(&["#.npy"]);
    let first = TemporaryFolder::create(root.path(), "rows", 0o700, own.clone()).unwrap();
    let second = TemporaryFolder::create(root.path(), "rows", 0o700, own.clone()).unwrap();
    assert!(first.dir().is_dir() && second.dir().is_dir() && first.dir() != second.dir());
    let foreign = ForeignEntries::plant(second.dir()).unwrap();
    fs::write(second.dir().join("0.npy"), "").unwrap();
    drop(first);
    let left = second.dir().to_owned();
    drop(second);
    assert!(foreign.lost().is_empty() && !left.join("0.npy").exists());
    let names = names(root.path());
    assert!(others.iter().all(|name| names.contains(name)), "{names:?}");
    assert!(!names.contains(&dead) && !names.contains(&of_an_earlier_process_with_our_id), "{names:?}");
    assert_eq!((names.len(), elsewhere.path().join("0.npy").exists()), (others.len() + 2, true));
}

#[test]
fn a_link_in_place_of_an_output_folder_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("disk")).unwrap();
    fs::write(dir.path().join("disk/0.npy"), "").unwrap();
    std::os::unix::fs::symlink("disk", dir.path().join("out")).unwrap();
    let own = OwnEntries::forms(&["#.npy"]);
    assert_eq!(own.remove_from(&dir.path().join("out")).unwrap(), Some("".into()));
    assert!(dir.path().join("disk/0.npy").exists() && dir.path().join("out").is_symlink());
    assert_eq!(own.remove_from(&dir.path().join("missing")).unwrap(), None);
}

/// Creates a file and the folders above it.
fn put(root: &Path, path: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, "ours").unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn foreign_entries_survive_at_every_depth(
        own in prop::collection::btree_set("(part_[0-9]/)?(nodes/)?[a-c]/[xyz]\\.npy", 1..12),
        is_listed in any::<bool>(),
        has_foreign in any::<bool>(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("out");
        own.iter().for_each(|path| put(&dir, path));
        let entries = if is_listed {
            OwnEntries::default().with_paths(&own)
        } else {
            OwnEntries::forms(&["part_#/nodes/*/*", "part_#/*/*", "nodes/*/*", "*/*"])
        };
        let deepest = own.iter().max_by_key(|path| path.len()).unwrap();
        let file = Path::new(deepest).file_name().unwrap().to_str().unwrap();
        let temporary = deepest.replace(file, &format!(".{file}.{}01234567.partial", host_tag()));
        put(&dir, &temporary);
        prop_assert_eq!(entries.first_foreign(&dir).unwrap(), None);
        if !has_foreign {
            prop_assert_eq!(entries.remove_from(&dir).unwrap(), None);
            prop_assert!(!dir.exists());
            return Ok(());
        }
        // With `*`, files of the user may have names of outputs, so only the list tells them apart.
        let entries = OwnEntries::default().with_paths(&own);
        let foreign = ForeignEntries::plant(&dir).unwrap();
        let first = entries.first_foreign(&dir).unwrap();
        prop_assert_eq!(first, Some(".hidden".into()));
        prop_assert_eq!(entries.remove_from(&dir).unwrap(), Some(".hidden".into()));
        prop_assert_eq!(foreign.lost(), Vec::<&Path>::new());
        prop_assert!(own.iter().chain([&temporary]).all(|path| !dir.join(path).exists()));
    }
}
