//! Operations: each is submitted once, and, optionally, its end is awaited.
//!
//! The requests are read from a file, because every line can be sent only once: a member that is being drained is not
//! drained again. All clients take their next line from it.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

use crate::PATIENCE;
use crate::http::Connection;
use crate::json::text_at;
use crate::options::number;
use crate::tally::Tally;

const USAGE: &str = "\
usage: bench-load operations --address HOST:PORT --work FILE --run NAME [OPTIONS]

  --address HOST:PORT  the server
  --work FILE          a line for each operation: TOKEN PATH BODY, without spaces in any of them; a line without a BODY is a
                       GET of which nothing but its answer is wanted
  --run NAME           goes into every Idempotency-Key; never use one twice on a store
  --clients N          connections at once [16]
  --seconds N          stop asking after so long, if there is work left by then [600]
  --wait               a client waits for the end of what it asked for, and it must have succeeded; times are until then
  --told FILE          write the ids of all that was acknowledged to this file, a line each";

/// Command to run.
pub(crate) struct Options {
    address: String,
    work: PathBuf,
    run: String,
    clients: usize,
    seconds: f64,
    wait: bool,
    told: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            address: String::new(),
            work: PathBuf::new(),
            run: String::new(),
            clients: 16,
            seconds: 600.0,
            wait: false,
            told: None,
        };
        while let Some(name) = words.next() {
            match name.as_str() {
                "--wait" => {
                    options.wait = true;
                    continue;
                }
                "--help" => return Err(USAGE.to_owned()),
                _ => {}
            }
            let value = words.next().ok_or_else(|| format!("{name} needs a value\n\n{USAGE}"))?;
            match name.as_str() {
                "--address" => options.address = value,
                "--work" => options.work = value.into(),
                "--run" => options.run = value,
                "--clients" => options.clients = number::<usize>(&name, &value)?.max(1),
                "--seconds" => options.seconds = number(&name, &value)?,
                "--told" => options.told = Some(value.into()),
                _ => return Err(format!("there is no option {name}\n\n{USAGE}")),
            }
        }
        if options.address.is_empty() || options.run.is_empty() || options.work.as_os_str().is_empty() {
            return Err(USAGE.to_owned());
        }
        Ok(options)
    }
}

/// One operation to ask for.
struct Asked {
    token: String,
    path: String,
    body: Option<String>,
}

fn read(file: &std::path::Path) -> Result<Vec<Asked>, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("the file of work: {error}"))?;
    let asked = text.lines().filter_map(|line| {
        let mut words = line.split(' ').map(str::to_owned);
        Some(Asked { token: words.next()?, path: words.next()?, body: words.next() })
    });
    Ok(asked.collect())
}

/// State shared by all clients.
struct Work {
    options: Options,
    asked: Vec<Asked>,
    next: Cell<usize>,
    tally: Tally,
    acknowledged: RefCell<Vec<String>>,
    started: Instant,
}

/// One exchange that must be a success; the body stays with the connection.
async fn ask(connection: &mut Connection, request: &str) -> Result<(), (u16, String)> {
    match tokio::time::timeout(PATIENCE, connection.ask(request)).await {
        Ok(Ok(answer)) if (200..300).contains(&answer.status) => Ok(()),
        Ok(Ok(answer)) => Err((answer.status, connection.body().to_owned())),
        Ok(Err(error)) => Err((0, format!("the connection broke: {error}"))),
        Err(_) => Err((0, "no answer within a minute".to_owned())),
    }
}

impl Work {
    /// Submits one operation and, optionally, waits for its end.
    async fn one(
        &self,
        connection: &mut Connection,
        number: usize,
        asked: &Asked,
    ) -> Result<(), (u16, String)> {
        let (address, run) = (&self.options.address, &self.options.run);
        let Asked { token, path, body } = asked;
        let Some(body) = body else {
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n");
            return ask(connection, &request).await;
        };
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {run}-{number}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        ask(connection, &request).await?;
        let Some(id) = text_at(connection.body(), 2, "id").map(str::to_owned) else {
            return Err((0, format!("an answer without an operation: {}", connection.body())));
        };
        self.acknowledged.borrow_mut().push(id.clone());
        if !self.options.wait {
            return Ok(());
        }
        let request = format!(
            "GET /v1/operations/{id}?wait_seconds=30 HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        loop {
            ask(connection, &request).await?;
            match text_at(connection.body(), 1, "state") {
                Some("succeeded") => return Ok(()),
                Some("accepted" | "running" | "verifying") => {}
                _ => return Err((0, format!("it did not succeed: {}", connection.body()))),
            }
        }
    }

    async fn client(self: Rc<Self>) {
        let mut connection = match Connection::open(&self.options.address).await {
            Ok(connection) => connection,
            Err(error) => return self.tally.failed(0, format!("cannot connect: {error}")),
        };
        while self.started.elapsed().as_secs_f64() < self.options.seconds {
            let number = self.next.replace(self.next.get() + 1);
            let Some(asked) = self.asked.get(number) else { return };
            let began = Instant::now();
            match self.one(&mut connection, number, asked).await {
                Ok(()) => self.tally.done(began.elapsed()),
                Err((status, what)) => {
                    self.tally.failed(status, what);
                    if status == 0 {
                        return;
                    }
                }
            }
        }
    }
}

pub(crate) async fn run(options: Options) -> Result<(), String> {
    let asked = read(&options.work)?;
    let clients = options.clients;
    let work = Rc::new(Work {
        options,
        asked,
        next: Cell::new(0),
        tally: Tally::default(),
        acknowledged: RefCell::default(),
        started: Instant::now(),
    });
    let running: Vec<_> = (0..clients).map(|_| tokio::task::spawn_local(work.clone().client())).collect();
    for client in running {
        client.await.map_err(|error| error.to_string())?;
    }
    work.tally.report(clients, work.started.elapsed().as_secs_f64(), None);
    if let Some(file) = &work.options.told {
        let text = work.acknowledged.borrow().iter().map(|id| format!("{id}\n")).collect::<String>();
        std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}
