//! Pushes and pulls images, by the distribution protocol, from a number of clients at once.
//!
//! All content is derived from the name of the run, so nothing is stored between a push and the pull that checks it. The
//! content and hashes of a large layer are computed before the clock starts.

mod client;
mod content;
mod options;

use std::rc::Rc;
use std::time::Instant;

use crate::PATIENCE;
use crate::tally::{Tally, Until};
use client::{Client, Failed};
use content::{Image, Layer};
pub(crate) use options::Options;
use options::Verb;

/// Awaits one request with a timeout, and records the result; returns false if the client cannot continue.
async fn noted(tally: &Tally, work: impl Future<Output = Result<u64, Failed>>) -> bool {
    let started = Instant::now();
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(bytes)) => {
            tally.done(started.elapsed());
            tally.add_bytes(bytes);
            return true;
        }
        Ok(Err(failed)) => tally.failed(failed.status, failed.what),
        Err(_) => tally.failed(0, "no end within a minute".to_owned()),
    }
    false
}

fn name(options: &Options, client: usize, count: u64) -> String {
    format!("{}-{client}-{count}", options.run)
}

/// Returns the images that a push of this run created, if needed: this many of each client.
fn pushed(options: &Options, client: usize) -> Vec<Image> {
    match options.verb {
        Verb::Manifests => (0..options.each.unwrap_or(1).max(1))
            .map(|count| Image::of(&name(options, client, count)))
            .collect(),
        _ => Vec::new(),
    }
}

/// One client with small images: one connection, one request under way at a time.
async fn small(
    number: usize,
    options: Rc<Options>,
    token: Rc<Option<String>>,
    tally: Rc<Tally>,
    until: Rc<Until>,
    made: Vec<Image>,
) {
    let repository = format!("{}-{number}", options.repository);
    let mut client = match Client::open(&options.address, token.as_deref(), repository).await {
        Ok(client) => client,
        Err(error) => return tally.failed(0, format!("cannot connect: {error}")),
    };
    let mut count = 0_u64;
    while !until.reached(count) {
        let went_on = match options.verb {
            Verb::Manifests => {
                let image = &made[(count / 2) as usize % made.len()];
                noted(&tally, client.manifest(image, count.is_multiple_of(2))).await
            }
            verb => {
                let image = Image::of(&name(&options, number, count));
                noted(&tally, client.push(&image, verb == Verb::Push)).await
            }
        };
        if !went_on {
            return;
        }
        count += 1;
    }
}

async fn all_small(options: Rc<Options>, token: Rc<Option<String>>, tally: Rc<Tally>) -> Result<f64, String> {
    let made: Vec<Vec<Image>> = (0..options.clients).map(|number| pushed(&options, number)).collect();
    let started = Instant::now();
    // The number of manifests does not limit the number of requests.
    let requests = options.each.filter(|_| options.verb != Verb::Manifests);
    let until = Rc::new(Until { at: started + options.duration, requests });
    let clients: Vec<_> = made
        .into_iter()
        .enumerate()
        .map(|(number, made)| {
            let parts = (options.clone(), token.clone(), tally.clone(), until.clone());
            tokio::task::spawn_local(small(number, parts.0, parts.1, parts.2, parts.3, made))
        })
        .collect();
    for client in clients {
        client.await.map_err(|error| error.to_string())?;
    }
    Ok(started.elapsed().as_secs_f64())
}

/// One client with large layers; the time between two of them is not counted.
async fn large(options: &Options, token: Option<&str>, tally: &Tally) -> Result<f64, String> {
    let repository = format!("{}-0", options.repository);
    let mut client = Client::open(&options.address, token, repository)
        .await
        .map_err(|error| format!("cannot connect: {error}"))?;
    let mut first = Layer::of(&name(options, 0, 0), options.megabytes);
    let mut seconds = 0.0;
    for count in 0..options.each.unwrap_or(1) {
        if options.verb == Verb::LayerPush && count > 0 {
            first = Layer::of(&name(options, 0, count), options.megabytes);
        }
        let started = Instant::now();
        let went_on = match options.verb {
            Verb::LayerPush => noted(tally, client.layer_push(&mut first)).await,
            _ => noted(tally, client.layer_pull(&first, options.compare)).await,
        };
        seconds += started.elapsed().as_secs_f64();
        if !went_on {
            break;
        }
    }
    Ok(seconds)
}

pub(crate) async fn run(options: Options) -> Result<(), String> {
    // From a file, because command lines are world-readable.
    let token = options.token_file.as_ref().map(std::fs::read_to_string).transpose();
    let token = token.map_err(|error| format!("the token's file: {error}"))?;
    let token = token.map(|text| text.trim().to_owned());
    let tally = Rc::new(Tally::default());
    let (clients, seconds) = match options.verb {
        Verb::LayerPush | Verb::LayerPull => (1, large(&options, token.as_deref(), &tally).await?),
        _ => {
            let clients = options.clients;
            (clients, all_small(Rc::new(options), Rc::new(token), tally.clone()).await?)
        }
    };
    tally.report(clients, seconds, None);
    Ok(())
}
