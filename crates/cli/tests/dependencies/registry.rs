//! Package registries on loopback, as far as one package needs them: cargo's sparse index, npm's, Python's simple one.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Shelf {
    pages: Mutex<HashMap<String, Vec<u8>>>,
    requests: AtomicUsize,
}

/// One server; its thread ends with the test's process.
pub(crate) struct Registry {
    port: u16,
    shelf: Arc<Shelf>,
    folder: tempfile::TempDir,
}

impl Registry {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a port");
        let port = listener.local_addr().expect("it is bound").port();
        let shelf = Arc::new(Shelf::default());
        let theirs = Arc::clone(&shelf);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shelf = Arc::clone(&theirs);
                std::thread::spawn(move || serve(&shelf, stream));
            }
        });
        Self { port, shelf, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.shelf.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn cargo_crate(&self, name: &str, lib: &str) {
        let manifest = format!("[package]\nname = \"{name}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n");
        let root = format!("{name}-1.0.0");
        let bytes = self.tarball(&[(&format!("{root}/Cargo.toml"), &manifest), (&format!("{root}/src/lib.rs"), lib)]);
        let hash = loopwright_core::hash::hash_bytes(&bytes);
        let line = format!(
            "{{\"name\":\"{name}\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{hash}\",\"features\":{{}},\"yanked\":false}}\n"
        );
        self.put("/index/config.json", format!("{{\"dl\":\"{}\"}}", self.url("/dl")).into_bytes());
        self.put(&format!("/index/{}/{}/{name}", &name[..2], &name[2..4]), line.into_bytes());
        self.put(&format!("/dl/{name}/1.0.0/download"), bytes);
    }

    pub(crate) fn npm_package(&self, name: &str, index: &str) {
        let manifest = format!("{{\"name\":\"{name}\",\"version\":\"1.0.0\",\"main\":\"index.js\"}}");
        let bytes = self.tarball(&[("package/package.json", &manifest), ("package/index.js", index)]);
        self.put(&format!("/{name}/-/{name}-1.0.0.tgz"), bytes);
    }

    /// A wheel is a zip; Python itself writes one.
    pub(crate) fn python_wheel(&self, name: &str, module: &str) {
        let (file, path) = (format!("{name}-1.0-py3-none-any.whl"), self.folder.path().join("wheel"));
        let write = "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w')\n\
                     for i in range(2, len(sys.argv), 2): z.writestr(sys.argv[i], sys.argv[i + 1])\nz.close()";
        let info = format!("{name}-1.0.dist-info");
        let parts = [
            (format!("{name}.py"), module.to_owned()),
            (format!("{info}/METADATA"), format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")),
            (
                format!("{info}/WHEEL"),
                "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n".into(),
            ),
            (format!("{info}/RECORD"), format!("{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")),
        ];
        let words = parts.iter().flat_map(|(name, text)| [name.as_str(), text.as_str()]);
        run(
            Path::new("/"),
            "python3",
            &[&["-c", write, &path.to_string_lossy()], &*words.collect::<Vec<_>>()].concat(),
        );
        self.put(&format!("/files/{file}"), std::fs::read(path).expect("the wheel is there"));
        let page = format!("<!DOCTYPE html><html><body><a href=\"/files/{file}\">{file}</a></body></html>");
        self.put(&format!("/simple/{name}/"), page.into_bytes());
    }

    fn put(&self, path: &str, bytes: Vec<u8>) {
        self.shelf.pages.lock().expect("no thread died").insert(path.to_owned(), bytes);
    }

    fn tarball(&self, files: &[(&str, &str)]) -> Vec<u8> {
        let root = tempfile::tempdir_in(&self.folder).expect("a folder can be made");
        for (name, text) in files {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().expect("it has a folder")).expect("a folder can be made");
            std::fs::write(path, text).expect("a file can be written");
        }
        let place = self.folder.path().join("tarball.tgz");
        let top = files[0].0.split('/').next().expect("a path has a first part");
        run(root.path(), "tar", &["--mtime=@0", "-czf", &place.to_string_lossy(), top]);
        std::fs::read(place).expect("the archive is there")
    }
}

#[expect(clippy::disallowed_methods, reason = "a test makes its packages with the tools people make them with")]
fn run(folder: &Path, program: &str, words: &[&str]) {
    let status = Command::new(program).args(words).current_dir(folder).status().expect("the tool is installed");
    assert!(status.success(), "{program} {words:?}");
}

fn serve(shelf: &Shelf, stream: TcpStream) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    while reader.read_line(&mut line).ok()? > 2 {}
    shelf.requests.fetch_add(1, Ordering::SeqCst);
    let found = shelf.pages.lock().ok()?.get(path.split('?').next()?).cloned();
    let (status, body) = found.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let kind = if path.starts_with("/simple") { "text/html" } else { "application/octet-stream" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}
