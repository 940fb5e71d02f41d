//! Projects and their visibility.

use muster_db::{Page, ProjectsOf, Store};
use muster_model::{LabelSelector, Project, Role, Scope, Tenant, User};

use crate::made::{self, FIRST, put, same};

on_both![
    a_project_is_found_by_id_and_by_qualified_name,
    a_name_is_unique_in_its_tenant,
    a_project_needs_its_tenant,
    an_update_needs_the_version_before,
    a_deletion_needs_the_version,
    the_projects_of_a_tenant_are_deleted_together,
    lists_show_what_is_visible,
    lists_page_and_select,
    a_bare_name_may_be_ambiguous,
];

/// Two tenants: `acme` with train and serve, `globex` with train.
struct Place {
    acme: Tenant,
    train: Project,
    serve: Project,
    foreign: Project,
}

async fn place(store: &Store) -> Place {
    let (acme, globex) = (made::tenant("acme"), made::tenant("globex"));
    let (train, serve) = (made::project(&acme, "train"), made::project(&acme, "serve"));
    let foreign = made::project(&globex, "train");
    put(store, async |tx| {
        tx.tenant_insert(&acme).await?;
        tx.tenant_insert(&globex).await?;
        for project in [&train, &serve, &foreign] {
            tx.project_insert(project).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    Place { acme, train, serve, foreign }
}

async fn person(store: &Store, email: &str, roles: &[(Role, Scope)]) -> User {
    let user = made::user(None, email);
    put(store, async |tx| {
        tx.user_insert(&user).await?;
        for (role, scope) in roles {
            tx.role_binding_insert(&made::binding(&user, *role, *scope)).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    user
}

async fn a_project_is_found_by_id_and_by_qualified_name(store: Store) {
    let place = place(&store).await;
    same(&store.project_lookup(place.train.id).await.unwrap(), &Some(&place.train));
    same(&store.project_by_qualified_name("acme", "train").await.unwrap(), &Some(&place.train));
    same(&store.project_by_qualified_name("globex", "train").await.unwrap(), &Some(&place.foreign));
    assert!(store.project_by_qualified_name("globex", "serve").await.unwrap().is_none());
    assert!(store.project_by_qualified_name("nobody", "train").await.unwrap().is_none());
    assert!(store.project_lookup(made::id()).await.unwrap().is_none());
}

async fn a_name_is_unique_in_its_tenant(store: Store) {
    let place = place(&store).await;
    let again = made::project(&place.acme, "train");
    made::is_conflict(put(&store, async |tx| tx.project_insert(&again).await).await);
    assert!(store.project_lookup(again.id).await.unwrap().is_none());
}

async fn a_project_needs_its_tenant(store: Store) {
    let orphan = made::project(&made::tenant("never-made"), "train");
    made::is_gone(put(&store, async |tx| tx.project_insert(&orphan).await).await);
}

async fn an_update_needs_the_version_before(store: Store) {
    let mut project = place(&store).await.train;
    project.display_name = "Training".to_owned();
    project.labels = made::labels([("team", "ml")]);
    project.updated_at = made::at(50);
    project.version = 2;
    put(&store, async |tx| tx.project_update(&project).await).await.unwrap();
    same(&store.project_lookup(project.id).await.unwrap(), &Some(&project));
    let late = Project { display_name: "Late".to_owned(), ..project.clone() };
    made::is_stale(put(&store, async |tx| tx.project_update(&late).await).await);
    same(&store.project_lookup(project.id).await.unwrap(), &Some(&project));
}

async fn a_deletion_needs_the_version(store: Store) {
    let place = place(&store).await;
    made::is_stale(put(&store, async |tx| tx.project_delete(place.train.id, 7).await).await);
    put(&store, async |tx| tx.project_delete(place.train.id, 1).await).await.unwrap();
    assert!(store.project_lookup(place.train.id).await.unwrap().is_none());
    made::is_stale(put(&store, async |tx| tx.project_delete(place.train.id, 1).await).await);
    let account = made::service_account(&place.serve, "ci");
    put(&store, async |tx| tx.service_account_insert(&account).await).await.unwrap();
    made::is_gone(put(&store, async |tx| tx.project_delete(place.serve.id, 1).await).await);
}

async fn the_projects_of_a_tenant_are_deleted_together(store: Store) {
    let place = place(&store).await;
    let deleted = put(&store, async |tx| tx.project_delete_of_tenant(place.acme.id).await).await.unwrap();
    assert_eq!(deleted, 2);
    let left = store.project_list(FIRST, ProjectsOf::All, &LabelSelector::default()).await.unwrap();
    same(&left, &[&place.foreign]);
    assert_eq!(put(&store, async |tx| tx.project_delete_of_tenant(place.acme.id).await).await.unwrap(), 0);
}

async fn lists_show_what_is_visible(store: Store) {
    let place = place(&store).await;
    let admin =
        person(&store, "admin@acme.example", &[(Role::TenantAdmin, Scope::Tenant(place.acme.id))]).await;
    let viewer = person(&store, "viewer@acme.example", &[(Role::ProjectViewer, place.serve.scope())]).await;
    let roles = [(Role::ProjectAdmin, place.foreign.scope()), (Role::ProjectViewer, place.train.scope())];
    let guest = person(&store, "guest@example.com", &roles).await;
    let operator = person(&store, "op@example.com", &[(Role::PlatformOperator, Scope::Platform)]).await;
    let any = LabelSelector::default();
    let seen = async |of: ProjectsOf| store.project_list(FIRST, of, &any).await.unwrap();
    same(&seen(ProjectsOf::All).await, &[&place.train, &place.serve, &place.foreign]);
    same(&seen(ProjectsOf::User(admin.id)).await, &[&place.train, &place.serve]);
    same(&seen(ProjectsOf::User(viewer.id)).await, &[&place.serve]);
    same(&seen(ProjectsOf::User(guest.id)).await, &[&place.train, &place.foreign]);
    same(&seen(ProjectsOf::Only(place.serve.id)).await, &[&place.serve]);
    // An operator uses `All`; the binding alone makes no project visible.
    assert!(seen(ProjectsOf::User(operator.id)).await.is_empty());
    assert!(seen(ProjectsOf::User(made::id())).await.is_empty());
    assert!(seen(ProjectsOf::Only(made::id())).await.is_empty());
}

async fn lists_page_and_select(store: Store) {
    let acme = made::tenant("acme");
    let projects: Vec<Project> = (0..5)
        .map(|n| Project {
            labels: made::labels([
                ("example.com/tier", if n % 2 == 0 { "even" } else { "odd" }),
                ("n", &n.to_string()),
            ]),
            ..made::project(&acme, &format!("p{n}"))
        })
        .collect();
    put(&store, async |tx| {
        tx.tenant_insert(&acme).await?;
        for project in &projects {
            tx.project_insert(project).await?;
        }
        Ok(())
    })
    .await
    .unwrap();
    let list = async |page: Page, of: ProjectsOf, text: &str| {
        let found = store.project_list(page, of, &made::selector(text)).await.unwrap();
        found.into_iter().map(|project| project.name).collect::<Vec<_>>()
    };
    assert_eq!(list(Page { size: 2, ..FIRST }, ProjectsOf::All, "").await, ["p0", "p1"]);
    assert_eq!(list(made::page(projects[1].id, 2), ProjectsOf::All, "").await, ["p2", "p3"]);
    assert_eq!(list(FIRST, ProjectsOf::All, "example.com/tier=even").await, ["p0", "p2", "p4"]);
    let second = made::page(projects[0].id, 1);
    assert_eq!(list(second, ProjectsOf::All, "example.com/tier=even").await, ["p2"]);
    assert_eq!(list(FIRST, ProjectsOf::All, "example.com/tier!=even,n!=3").await, ["p1"]);
    assert_eq!(list(FIRST, ProjectsOf::Only(projects[3].id), "n=3").await, ["p3"]);
    assert!(list(FIRST, ProjectsOf::Only(projects[3].id), "n!=3").await.is_empty());
}

async fn a_bare_name_may_be_ambiguous(store: Store) {
    let place = place(&store).await;
    let admin =
        person(&store, "admin@acme.example", &[(Role::TenantAdmin, Scope::Tenant(place.acme.id))]).await;
    let named = async |name: &str, of: ProjectsOf| store.project_by_name(name, of).await.unwrap();
    same(&named("train", ProjectsOf::All).await, &[&place.train, &place.foreign]);
    same(&named("train", ProjectsOf::User(admin.id)).await, &[&place.train]);
    let viewer = person(&store, "viewer@acme.example", &[(Role::ProjectViewer, place.train.scope())]).await;
    same(&named("train", ProjectsOf::User(viewer.id)).await, &[&place.train]);
    assert!(named("serve", ProjectsOf::User(viewer.id)).await.is_empty());
    same(&named("train", ProjectsOf::Only(place.foreign.id)).await, &[&place.foreign]);
    assert!(named("serve", ProjectsOf::Only(place.foreign.id)).await.is_empty());
    assert!(named("absent", ProjectsOf::All).await.is_empty());
    for n in 0..3 {
        let tenant = made::tenant(&format!("extra{n}"));
        let project = made::project(&tenant, "train");
        put(&store, async |tx| {
            tx.tenant_insert(&tenant).await?;
            tx.project_insert(&project).await
        })
        .await
        .unwrap();
    }
    assert_eq!(named("train", ProjectsOf::All).await.len(), 3, "enough to tell one from several");
}
