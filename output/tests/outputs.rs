//! Outputs replace regular files, directly or through links, and refuse anything else.

use edgecut_output::{OutputFile, check_output, destination, remove_abandoned, write_output};
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
    let path = |name: &str| dir.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let _socket = UnixListener::bind(path("socket")).unwrap();
    symlink("/dev/null", path("null")).unwrap();
    symlink("folder", path("to_folder")).unwrap();
    symlink("circle", path("circle")).unwrap();
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
        ("absent/file", "No such file or directory"),
        ("folder/..", "it is a directory"),
    ] {
        let checked = check_output(&path(name)).unwrap_err().to_string();
        let written = write_output(&path(name), b"x").unwrap_err().to_string();
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
    let dead = [".model.0123456789abcdef.partial", ".model.x.partial", ".other.0123456789abcdef.partial"];
    dead.iter().for_each(|name| fs::write(dir.path().join(name), "half").unwrap());
    remove_abandoned(&path).unwrap();
    let left = names(dir.path());
    assert!(!left.iter().any(|name| name == dead[0]) && living.temporary().exists(), "{left:?}");
    assert!(dead[1..].iter().all(|name| left.iter().any(|found| found == name)), "{left:?}");
    living.commit().unwrap();
}

#[test]
fn a_plain_name_is_a_file_of_the_current_folder() {
    assert_eq!(destination(Path::new("model")).unwrap(), Path::new("model"));
    assert!(destination(Path::new("..")).is_err());
}
