//! Servers for a test.

use std::sync::Arc;

use muster_db::{Location, Store};
use muster_http::{Running, Settings};
use muster_ids::Env;

use crate::{Client, Database};

/// One or more servers on one database, in this process.
pub struct Kit {
    /// The database.
    pub database: Arc<Database>,
    /// The servers.
    pub servers: Vec<Running>,
    /// The operator's token.
    pub operator_token: String,
}

impl Kit {
    /// Starts one server on a new SQLite file.
    pub async fn sqlite() -> Self {
        Self::start(Database::sqlite(), 1).await
    }

    /// Starts this many servers on the database, with limits that no test reaches by accident.
    pub async fn start(database: Database, replicas: usize) -> Self {
        Self::start_with(database, replicas, &[]).await
    }

    /// Likewise, with settings.
    pub async fn start_with(database: Database, replicas: usize, settings: &[(&str, &str)]) -> Self {
        let database = Arc::new(database);
        let mut kit = Self { database, servers: Vec::new(), operator_token: String::new() };
        for _ in 0..replicas {
            kit.add_server(settings).await;
        }
        let token_file = kit.database.folder().join("operator.token");
        kit.operator_token =
            std::fs::read_to_string(token_file).expect("the first start wrote the token").trim().to_owned();
        kit
    }

    /// Starts another server on the same database.
    pub async fn add_server(&mut self, settings: &[(&str, &str)]) {
        let running = Self::start_one(&self.database, settings).await;
        self.servers.push(running);
    }

    async fn start_one(database: &Database, settings: &[(&str, &str)]) -> Running {
        let mut all = Settings::default();
        let url = match &database.location {
            Location::Sqlite(path) => path.display().to_string(),
            Location::Postgres(url) => url.clone(),
        };
        let folder = database.folder().display().to_string();
        let defaults = [
            ("http.listen", "127.0.0.1:0"),
            ("nodes.listen", "127.0.0.1:0"),
            ("data.dir", folder.as_str()),
            ("database.url", url.as_str()),
            ("limits.actor_per_second", "100000"),
            ("limits.tenant_per_second", "100000"),
            ("limits.tenant_in_flight", "1000"),
            ("limits.address_per_second", "100000"),
            ("limits.address_in_flight", "1000"),
            ("webhooks.allow_private", "true"),
        ];
        for (key, value) in defaults.iter().chain(settings) {
            all.set(key, (*value).to_owned(), "the test").expect("a known setting");
        }
        muster_http::start(&all, Env::system()).await.expect("the server starts")
    }

    /// Returns the store of the first server.
    pub fn store(&self) -> &Store {
        &self.servers[0].platform.store
    }

    /// Returns a client of server `at` with this token.
    pub fn client_of(&self, at: usize, token: &str) -> Client {
        Client::new(self.servers[at].address, token)
    }

    /// Returns the address of server `at` for agents.
    pub fn nodes_address(&self, at: usize) -> std::net::SocketAddr {
        self.servers[at].nodes_address.expect("the listener for nodes is on")
    }

    /// Returns the certificate of the authority for nodes and their listener, as PEM.
    pub async fn authority(&self) -> String {
        let platform = &self.servers[0].platform;
        platform.authority.certificate(platform.custody()).await.expect("the authority is there")
    }

    /// Returns the operator's client of the first server.
    pub fn operator(&self) -> Client {
        self.client_of(0, &self.operator_token)
    }

    /// Waits until the outbox is empty.
    pub async fn sealed(&self) {
        for _ in 0..500 {
            if !self.store().outbox_has_rows().await.expect("the store answers") {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("rows stay unsealed");
    }

    /// Stops all servers cleanly.
    pub async fn stop(self) {
        for server in self.servers {
            server.stop().await;
        }
    }
}
