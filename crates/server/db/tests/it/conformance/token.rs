//! Tokens and sessions.

use muster_db::{Page, Store};
use muster_model::token::{Subject, Token, TokenKind};
use muster_model::{Project, ServiceAccount, Tenant, User};

use crate::made::{self, FIRST, put, same};

on_both![
    a_token_is_found_by_id_and_by_hash,
    a_credential_says_whether_its_subject_is_disabled,
    a_hash_is_unique_and_a_subject_must_exist,
    lists_keep_to_their_subject,
    shortening_needs_the_version_and_a_live_token,
    a_token_is_revoked_once,
    everything_a_person_holds_is_revoked_together,
    revoking_a_token_revokes_all_that_it_issued,
    a_revoked_token_issues_nothing,
    a_revocation_waits_for_what_the_token_is_issuing,
    an_issue_waits_for_the_revocation_of_its_token,
    last_use_only_moves_forward,
    tokens_go_with_their_subjects,
];

struct Place {
    acme: Tenant,
    train: Project,
    ada: User,
    operator: User,
    account: ServiceAccount,
}

async fn place(store: &Store) -> Place {
    let acme = made::tenant("acme");
    let train = made::project(&acme, "train");
    let (ada, operator) = (made::user(Some(&acme), "ada@acme.example"), made::user(None, "op@example.com"));
    let account = made::service_account(&train, "ci");
    put(store, async |tx| {
        tx.tenant_insert(&acme).await?;
        tx.project_insert(&train).await?;
        tx.user_insert(&ada).await?;
        tx.user_insert(&operator).await?;
        tx.service_account_insert(&account).await
    })
    .await
    .unwrap();
    Place { acme, train, ada, operator, account }
}

async fn issue(store: &Store, tokens: &[&Token]) -> muster_db::Result<()> {
    put(store, async |tx| {
        for token in tokens {
            tx.token_insert(token, made::hash(token)).await?;
        }
        Ok(())
    })
    .await
}

async fn stored(store: &Store, token: &Token) -> Token {
    store.token_lookup(token.id).await.unwrap().unwrap()
}

async fn a_token_is_found_by_id_and_by_hash(store: Store) {
    let place = place(&store).await;
    let personal = made::token(Subject::User(place.ada.id));
    let session = Token { kind: TokenKind::Session, ..made::token(Subject::User(place.ada.id)) };
    let machine = made::token(Subject::ServiceAccount(place.account.id));
    issue(&store, &[&personal, &session, &machine]).await.unwrap();
    for token in [&personal, &session, &machine] {
        same(&store.token_lookup(token.id).await.unwrap(), &Some(token));
        let credential = store.token_by_hash(made::hash(token)).await.unwrap().unwrap();
        same(&credential.token, token);
        assert!(!credential.disabled);
    }
    assert!(store.token_by_hash([0; 32]).await.unwrap().is_none());
    assert!(store.token_lookup(made::id()).await.unwrap().is_none());
}

async fn a_credential_says_whether_its_subject_is_disabled(store: Store) {
    let place = place(&store).await;
    let (personal, machine) =
        (made::token(Subject::User(place.ada.id)), made::token(Subject::ServiceAccount(place.account.id)));
    issue(&store, &[&personal, &machine]).await.unwrap();
    let disabled =
        async |token: &Token| store.token_by_hash(made::hash(token)).await.unwrap().unwrap().disabled;
    let ada = User { disabled: true, version: 2, ..place.ada.clone() };
    put(&store, async |tx| tx.user_update(&ada).await).await.unwrap();
    assert!(disabled(&personal).await);
    assert!(!disabled(&machine).await);
    let account = ServiceAccount { disabled: true, version: 2, ..place.account.clone() };
    put(&store, async |tx| tx.service_account_update(&account).await).await.unwrap();
    assert!(disabled(&machine).await);
}

async fn a_hash_is_unique_and_a_subject_must_exist(store: Store) {
    let place = place(&store).await;
    let (first, second) =
        (made::token(Subject::User(place.ada.id)), made::token(Subject::User(place.operator.id)));
    issue(&store, &[&first]).await.unwrap();
    made::is_conflict(put(&store, async |tx| tx.token_insert(&second, made::hash(&first)).await).await);
    made::is_gone(issue(&store, &[&made::token(Subject::User(made::id()))]).await);
    made::is_gone(issue(&store, &[&made::token(Subject::ServiceAccount(made::id()))]).await);
}

async fn lists_keep_to_their_subject(store: Store) {
    let place = place(&store).await;
    let mine: Vec<Token> = (0..4).map(|_| made::token(Subject::User(place.ada.id))).collect();
    let machine = made::token(Subject::ServiceAccount(place.account.id));
    issue(&store, &mine.iter().chain([&machine]).collect::<Vec<_>>()).await.unwrap();
    let list = async |page: Page, subject: Subject| store.token_list(page, subject).await.unwrap();
    same(&list(FIRST, Subject::User(place.ada.id)).await, &mine);
    same(&list(Page { size: 1, ..FIRST }, Subject::User(place.ada.id)).await, &mine[..1]);
    same(&list(made::page(mine[0].id, 2), Subject::User(place.ada.id)).await, &mine[1..3]);
    same(&list(FIRST, Subject::ServiceAccount(place.account.id)).await, &[&machine]);
    assert!(list(FIRST, Subject::User(place.operator.id)).await.is_empty());
}

async fn shortening_needs_the_version_and_a_live_token(store: Store) {
    let place = place(&store).await;
    let (token, other) = (made::token(Subject::User(place.ada.id)), made::token(Subject::User(place.ada.id)));
    issue(&store, &[&token, &other]).await.unwrap();
    let shorten = async |version: i64| {
        put(&store, async |tx| tx.token_shorten(token.id, made::at(60), version).await).await
    };
    made::is_stale(shorten(2).await);
    shorten(1).await.unwrap();
    same(&stored(&store, &token).await, &Token { expires_at: made::at(60), version: 2, ..token.clone() });
    made::is_stale(shorten(1).await);
    put(&store, async |tx| tx.token_revoke(token.id, made::at(9)).await).await.unwrap();
    made::is_stale(shorten(3).await);
    same(&stored(&store, &other).await, &other);
}

async fn a_token_is_revoked_once(store: Store) {
    let place = place(&store).await;
    let (token, other) = (made::token(Subject::User(place.ada.id)), made::token(Subject::User(place.ada.id)));
    issue(&store, &[&token, &other]).await.unwrap();
    put(&store, async |tx| tx.token_revoke(token.id, made::at(9)).await).await.unwrap();
    let revoked = Token { revoked_at: Some(made::at(9)), version: 2, ..token.clone() };
    same(&stored(&store, &token).await, &revoked);
    same(&store.token_by_hash(made::hash(&token)).await.unwrap().unwrap().token, &revoked);
    made::is_stale(put(&store, async |tx| tx.token_revoke(token.id, made::at(99)).await).await);
    made::is_stale(put(&store, async |tx| tx.token_revoke(made::id(), made::at(99)).await).await);
    same(&stored(&store, &token).await, &revoked);
    same(&stored(&store, &other).await, &other);
}

async fn everything_a_person_holds_is_revoked_together(store: Store) {
    let place = place(&store).await;
    let personal = made::token(Subject::User(place.ada.id));
    let session = Token { kind: TokenKind::Session, ..made::token(Subject::User(place.ada.id)) };
    let early = made::token(Subject::User(place.ada.id));
    let other = made::token(Subject::User(place.operator.id));
    issue(&store, &[&personal, &session, &early, &other]).await.unwrap();
    put(&store, async |tx| tx.token_revoke(early.id, made::at(1)).await).await.unwrap();
    let revoke = async || {
        put(&store, async |tx| tx.token_revoke_of_user(place.ada.id, made::at(9)).await).await.unwrap()
    };
    assert_eq!(revoke().await, 2);
    assert_eq!(revoke().await, 0);
    for (token, at) in [(&personal, 9), (&session, 9), (&early, 1)] {
        let revoked = Token { revoked_at: Some(made::at(at)), version: 2, ..token.clone() };
        same(&stored(&store, token).await, &revoked);
    }
    same(&stored(&store, &other).await, &other);
}

async fn revoking_a_token_revokes_all_that_it_issued(store: Store) {
    let place = place(&store).await;
    let parent = made::token(Subject::User(place.ada.id));
    let child =
        Token { parent_id: Some(parent.id), ..made::token(Subject::ServiceAccount(place.account.id)) };
    let grandchild =
        Token { parent_id: Some(child.id), ..made::token(Subject::ServiceAccount(place.account.id)) };
    let other = made::token(Subject::ServiceAccount(place.account.id));
    issue(&store, &[&parent, &child, &grandchild, &other]).await.unwrap();
    same(&stored(&store, &child).await, &child);
    let revoked = put(&store, async |tx| tx.token_revoke(parent.id, made::at(9)).await).await.unwrap();
    assert_eq!(revoked, 2, "those that it issued");
    for token in [&parent, &child, &grandchild] {
        let revoked = Token { revoked_at: Some(made::at(9)), version: 2, ..token.clone() };
        same(&stored(&store, token).await, &revoked);
    }
    same(&stored(&store, &other).await, &other);
    let second = made::token(Subject::User(place.ada.id));
    let issued =
        Token { parent_id: Some(second.id), ..made::token(Subject::ServiceAccount(place.account.id)) };
    issue(&store, &[&second, &issued]).await.unwrap();
    let revoke = put(&store, async |tx| tx.token_revoke_of_user(place.ada.id, made::at(9)).await).await;
    assert_eq!(revoke.unwrap(), 2);
    assert!(stored(&store, &issued).await.revoked_at.is_some());
}

async fn a_revoked_token_issues_nothing(store: Store) {
    let place = place(&store).await;
    let parent = made::token(Subject::User(place.ada.id));
    let child = Token { parent_id: Some(parent.id), ..made::token(Subject::User(place.ada.id)) };
    // Its issuer was removed with its subject, which does not end it.
    let other = Token { parent_id: Some(made::id()), ..made::token(Subject::User(place.operator.id)) };
    issue(&store, &[&parent, &child, &other]).await.unwrap();
    let hold = async |token: &Token| put(&store, async |tx| tx.token_hold(token.id).await).await;
    for token in [&parent, &child, &other] {
        hold(token).await.unwrap();
    }
    put(&store, async |tx| tx.token_revoke(parent.id, made::at(9)).await).await.unwrap();
    for token in [&parent, &child, &made::token(Subject::User(place.ada.id))] {
        made::is_stale(hold(token).await);
    }
    hold(&other).await.unwrap();
}

/// Waits a while, and asserts that the task does not end.
async fn assert_waits<T>(task: &tokio::task::JoinHandle<T>) {
    for _ in 0..20 {
        assert!(!task.is_finished(), "it did not wait");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// Each kind of revocation begins while a grandchild of the revoked token is issued, and ends that one too.
async fn a_revocation_waits_for_what_the_token_is_issuing(store: Store) {
    let place = place(&store).await;
    for is_of_user in [false, true] {
        let parent = made::token(Subject::User(place.ada.id));
        let child =
            Token { parent_id: Some(parent.id), ..made::token(Subject::ServiceAccount(place.account.id)) };
        let grandchild =
            Token { parent_id: Some(child.id), ..made::token(Subject::ServiceAccount(place.account.id)) };
        issue(&store, &[&parent, &child]).await.unwrap();
        let mut issuing = store.begin().await.unwrap();
        issuing.token_hold(child.id).await.unwrap();
        let (other, root, ada) = (store.clone(), parent.id, place.ada.id);
        let revoking = tokio::spawn(async move {
            put(&other, async |tx| match is_of_user {
                false => tx.token_revoke(root, made::at(9)).await.map(|issued| issued + 1),
                true => tx.token_revoke_of_user(ada, made::at(9)).await,
            })
            .await
        });
        assert_waits(&revoking).await;
        issuing.token_insert(&grandchild, made::hash(&grandchild)).await.unwrap();
        issuing.commit().await.unwrap();
        assert_eq!(revoking.await.unwrap().unwrap(), 3);
        assert!(stored(&store, &grandchild).await.revoked_at.is_some(), "it outlived what issued it");
    }
}

async fn an_issue_waits_for_the_revocation_of_its_token(store: Store) {
    let place = place(&store).await;
    let parent = made::token(Subject::User(place.ada.id));
    let child = Token { parent_id: Some(parent.id), ..made::token(Subject::User(place.ada.id)) };
    issue(&store, &[&parent, &child]).await.unwrap();
    let mut revoking = store.begin().await.unwrap();
    revoking.token_revoke(parent.id, made::at(9)).await.unwrap();
    let other = store.clone();
    let issuing = tokio::spawn(async move { put(&other, async |tx| tx.token_hold(child.id).await).await });
    assert_waits(&issuing).await;
    revoking.commit().await.unwrap();
    made::is_stale(issuing.await.unwrap());
}

async fn last_use_only_moves_forward(store: Store) {
    let place = place(&store).await;
    let (token, other) = (made::token(Subject::User(place.ada.id)), made::token(Subject::User(place.ada.id)));
    issue(&store, &[&token, &other]).await.unwrap();
    for (seen, kept) in [(100, 100), (50, 100), (200, 200)] {
        put(&store, async |tx| tx.token_used(token.id, made::at(seen)).await).await.unwrap();
        let now = stored(&store, &token).await;
        // The version stays: usage is not a change that `If-Match` must detect.
        same(&now, &Token { last_used_at: Some(made::at(kept)), ..token.clone() });
    }
    put(&store, async |tx| tx.token_used(made::id(), made::at(1)).await).await.unwrap();
    same(&stored(&store, &other).await, &other);
}

async fn tokens_go_with_their_subjects(store: Store) {
    let place = place(&store).await;
    let (ada, operator) = (Subject::User(place.ada.id), Subject::User(place.operator.id));
    let account = Subject::ServiceAccount(place.account.id);
    let tokens = [ada, ada, account, operator].map(made::token);
    issue(&store, &tokens.each_ref()).await.unwrap();
    made::is_gone(put(&store, async |tx| tx.user_delete(place.ada.id, 1).await).await);
    made::is_gone(put(&store, async |tx| tx.service_account_delete(place.account.id, 1).await).await);

    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.token_delete_of_user(place.ada.id).await.unwrap(), 2);
    tx.user_delete(place.ada.id, 1).await.unwrap();
    tx.rollback().await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.token_delete_of_service_account(place.account.id).await.unwrap(), 1);
    tx.service_account_delete(place.account.id, 1).await.unwrap();
    tx.rollback().await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.token_delete_of_project(made::id()).await.unwrap(), 0);
    assert_eq!(tx.token_delete_of_project(place.train.id).await.unwrap(), 1);
    tx.rollback().await;
    let mut tx = store.begin().await.unwrap();
    assert_eq!(tx.token_delete_of_tenant(made::id()).await.unwrap(), 0);
    tx.rollback().await;
    assert_eq!(put(&store, async |tx| tx.token_delete_of_tenant(place.acme.id).await).await.unwrap(), 3);
    for token in &tokens[..3] {
        assert!(store.token_lookup(token.id).await.unwrap().is_none());
    }
    same(&stored(&store, &tokens[3]).await, &tokens[3]);
}
