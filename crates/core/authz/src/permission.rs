//! The table: every permission, and which roles hold it inside the scope where they are bound.

use muster_model::Role;

macro_rules! permissions {
    ($($variant:ident = $word:literal: $roles:literal;)*) => {
        /// A permission, named like the endpoint it guards: `member.add` guards `member_add`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Permission { $(#[doc = $word] $variant,)* }

        impl Permission {
            /// All values.
            pub const ALL: &'static [Permission] = &[$(Permission::$variant,)*];

            /// `noun.verb`.
            pub fn as_str(self) -> &'static str {
                match self { $(Permission::$variant => $word,)* }
            }

            /// Returns the roles that hold it, as letters of the table below.
            fn holders(self) -> &'static str {
                match self { $(Permission::$variant => $roles,)* }
            }
        }
    };
}

// O platform_operator · T tenant_admin · A project_admin · V project_viewer · S a service account with it in its allow list.
// A role applies inside the scope where it is bound, and nowhere else.
permissions! {
    TenantCreate = "tenant.create": "O";
    TenantList = "tenant.list": "OT";
    TenantGet = "tenant.get": "OT";
    TenantUpdate = "tenant.update": "OT";
    TenantDelete = "tenant.delete": "O";
    TenantRotateKey = "tenant.rotate_key": "OT";

    ProjectCreate = "project.create": "OT";
    ProjectList = "project.list": "OTAVS";
    ProjectGet = "project.get": "OTAVS";
    ProjectUpdate = "project.update": "OTA";
    ProjectDelete = "project.delete": "OT";

    UserCreate = "user.create": "OT";
    UserList = "user.list": "OT";
    UserGet = "user.get": "OT";
    UserUpdate = "user.update": "OT";
    UserSetPassword = "user.set_password": "OT";
    UserDelete = "user.delete": "OT";

    RoleBindingCreate = "role_binding.create": "OTA";
    RoleBindingList = "role_binding.list": "OTA";
    RoleBindingGet = "role_binding.get": "OTA";
    RoleBindingDelete = "role_binding.delete": "OTA";

    ServiceAccountCreate = "service_account.create": "TA";
    ServiceAccountList = "service_account.list": "TA";
    ServiceAccountGet = "service_account.get": "TA";
    ServiceAccountUpdate = "service_account.update": "TA";
    ServiceAccountDelete = "service_account.delete": "TA";

    TokenIssue = "token.issue": "TA";
    TokenList = "token.list": "OTA";
    TokenGet = "token.get": "OTA";
    TokenRotate = "token.rotate": "TA";
    TokenRevoke = "token.revoke": "OTA";

    NodeEnrol = "node.enrol": "O";
    NodeList = "node.list": "O";
    NodeGet = "node.get": "O";
    NodeUpdate = "node.update": "O";
    NodeApprove = "node.approve": "O";
    NodeCordon = "node.cordon": "O";
    NodeUncordon = "node.uncordon": "O";
    NodeDrain = "node.drain": "O";
    NodeRetire = "node.retire": "O";
    NodeAudit = "node.audit": "O";

    SlotList = "slot.list": "O";
    SlotQuarantine = "slot.quarantine": "O";
    SlotApprove = "slot.approve": "O";

    // Every authenticated caller reads them.
    GpuProductCreate = "gpu_product.create": "O";
    GpuProductUpdate = "gpu_product.update": "O";
    GpuProductDelete = "gpu_product.delete": "O";

    QuotaGet = "quota.get": "OTA";
    QuotaSet = "quota.set": "O";

    CapacityGet = "capacity.get": "OTAVS";

    AllocationCreate = "allocation.create": "TAS";
    AllocationList = "allocation.list": "OTAVS";
    AllocationGet = "allocation.get": "OTAVS";
    AllocationTimeline = "allocation.timeline": "OTAVS";
    AllocationUpdate = "allocation.update": "TAS";
    AllocationRelease = "allocation.release": "TAS";
    AllocationRestart = "allocation.restart": "TAS";
    AllocationResize = "allocation.resize": "TAS";
    AllocationAttest = "allocation.attest": "O";

    StreamCreate = "stream.create": "TAS";
    StreamLogs = "stream.logs": "TAVS";

    CellCreate = "cell.create": "TAS";
    CellList = "cell.list": "OTAVS";
    CellGet = "cell.get": "OTAVS";
    CellRestart = "cell.restart": "TAS";
    CellDestroy = "cell.destroy": "TAS";
    CellArchivedLogs = "cell.archived_logs": "TAVS";

    NetworkList = "network.list": "OTAVS";
    NetworkGet = "network.get": "OTAVS";

    SshKeyCreate = "ssh_key.create": "TA";
    SshKeyList = "ssh_key.list": "OTAVS";
    SshKeyGet = "ssh_key.get": "OTAVS";
    SshKeyDelete = "ssh_key.delete": "TA";

    RepositoryList = "repository.list": "OTAVS";
    RepositoryGet = "repository.get": "OTAVS";
    RepositoryTags = "repository.tags": "OTAVS";
    RepositoryDelete = "repository.delete": "TAS";
    // The registry's protocol: reading, pushing new content, and moving a tag.
    RepositoryPull = "repository.pull": "TAVS";
    RepositoryPush = "repository.push": "TAS";
    RepositoryRetag = "repository.retag": "TAS";

    ArtifactPublish = "artifact.publish": "TAS";
    ArtifactList = "artifact.list": "OTAVS";
    ArtifactGet = "artifact.get": "OTAVS";
    ArtifactVerify = "artifact.verify": "TAS";
    ArtifactPromote = "artifact.promote": "TAS";
    ArtifactDemote = "artifact.demote": "TAS";
    ArtifactReferences = "artifact.references": "OTAVS";
    ArtifactDelete = "artifact.delete": "TAS";

    KeyCreate = "key.create": "TA";
    KeyList = "key.list": "OTAVS";
    KeyGet = "key.get": "OTAVS";
    KeyRevoke = "key.revoke": "TA";
    TrustPolicyGet = "trust_policy.get": "OTAVS";
    TrustPolicySet = "trust_policy.set": "TA";

    SecretCreate = "secret.create": "TAS";
    SecretList = "secret.list": "TAVS";
    SecretGet = "secret.get": "TAVS";
    SecretRotate = "secret.rotate": "TAS";
    SecretDelete = "secret.delete": "TAS";
    // Use it to authenticate to its registry.
    SecretUse = "secret.use": "TAS";
    RuntimeSecretIssue = "runtime_secret.issue": "S";
    RuntimeSecretList = "runtime_secret.list": "TAVS";
    RuntimeSecretGet = "runtime_secret.get": "TAVS";
    RuntimeSecretRevoke = "runtime_secret.revoke": "TAS";
    // One permission for each purpose: clear text is only for automation with that purpose.
    RuntimeSecretArtifactPull = "runtime_secret.artifact_pull": "S";
    RuntimeSecretClusterBootstrap = "runtime_secret.cluster_bootstrap": "S";

    AppCreate = "app.create": "TAS";
    AppList = "app.list": "OTAVS";
    AppGet = "app.get": "OTAVS";
    AppUpdate = "app.update": "TAS";
    AppDelete = "app.delete": "TAS";
    AppCompatibility = "app.compatibility": "OTAVS";
    AppVersionPublish = "app_version.publish": "TAS";
    AppVersionList = "app_version.list": "OTAVS";
    AppVersionGet = "app_version.get": "OTAVS";
    AppVersionPromote = "app_version.promote": "TAS";
    AppVersionDemote = "app_version.demote": "TAS";

    EntitlementGrant = "entitlement.grant": "TA";
    EntitlementList = "entitlement.list": "OTAVS";
    EntitlementGet = "entitlement.get": "OTAVS";
    EntitlementRevoke = "entitlement.revoke": "TA";
    // In a consumer's project, by the publisher's adapter.
    OperatorTokenMint = "operator_token.mint": "S";
    AdapterList = "adapter.list": "OTAVS";

    InstanceCreate = "instance.create": "TAS";
    InstanceApply = "instance.apply": "TAS";
    InstanceList = "instance.list": "OTAVS";
    InstanceGet = "instance.get": "OTAVS";
    InstanceUpdate = "instance.update": "TAS";
    InstanceScale = "instance.scale": "TAS";
    InstanceUpgrade = "instance.upgrade": "TAS";
    InstanceRollback = "instance.rollback": "TAS";
    InstanceDecommission = "instance.decommission": "TAS";
    InstanceEndpoints = "instance.endpoints": "OTAVS";

    MemberList = "member.list": "OTAVS";
    MemberGet = "member.get": "OTAVS";
    MemberAdd = "member.add": "TAS";
    MemberDrain = "member.drain": "TAS";
    MemberResume = "member.resume": "TAS";
    MemberRemove = "member.remove": "TAS";
    MemberReplace = "member.replace": "TAS";
    MemberRecover = "member.recover": "TAS";
    // Forced operations are separate: they lose the work on a member.
    MemberForceRemove = "member.force_remove": "OTAS";
    MemberForceReplace = "member.force_replace": "OTAS";
    InstanceForceDecommission = "instance.force_decommission": "OTAS";

    // Only with a lease on that instance, which only its adapter account can get.
    AdapterStepLease = "adapter_step.lease": "S";
    AdapterStepList = "adapter_step.list": "OTAVS";
    AdapterStepGet = "adapter_step.get": "OTAVS";
    AdapterStepHeartbeat = "adapter_step.heartbeat": "S";
    AdapterStepProgress = "adapter_step.progress": "S";
    AdapterStepComplete = "adapter_step.complete": "S";
    AdapterStepFail = "adapter_step.fail": "S";
    AdapterTaskCreate = "adapter_task.create": "S";
    AdapterTaskGet = "adapter_task.get": "S";

    OperationList = "operation.list": "OTAVS";
    OperationGet = "operation.get": "OTAVS";
    OperationCancel = "operation.cancel": "OTAS";
    OperationResolve = "operation.resolve": "OTAS";

    EventList = "event.list": "OTAVS";
    EventStream = "event.stream": "OTAVS";

    WebhookCreate = "webhook.create": "OTAS";
    WebhookList = "webhook.list": "OTAS";
    WebhookGet = "webhook.get": "OTAS";
    WebhookUpdate = "webhook.update": "OTAS";
    WebhookDelete = "webhook.delete": "OTAS";
    WebhookDeliveries = "webhook.deliveries": "OTAS";

    AuditList = "audit.list": "OTA";
    AuditExport = "audit.export": "OT";
    AuditHead = "audit.head": "OT";
}

impl Permission {
    /// Parses a permission from its name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|permission| permission.as_str() == text)
    }

    /// Reports whether `role` holds it, inside the scope of the role.
    pub fn held_by(self, role: Role) -> bool {
        let letter = match role {
            Role::PlatformOperator => 'O',
            Role::TenantAdmin => 'T',
            Role::ProjectAdmin => 'A',
            Role::ProjectViewer => 'V',
        };
        self.holders().contains(letter)
    }

    /// Reports whether an allow list may contain it.
    pub fn allowable(self) -> bool {
        self.holders().contains('S')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_parse_back() {
        for permission in Permission::ALL {
            assert_eq!(Permission::parse(permission.as_str()), Some(*permission));
            assert!(permission.holders().chars().all(|letter| "OTAVS".contains(letter)));
        }
    }

    #[test]
    fn a_viewer_holds_only_reads() {
        for permission in Permission::ALL.iter().filter(|p| p.held_by(Role::ProjectViewer)) {
            let verb = permission.as_str().rsplit('.').next().unwrap();
            assert!(
                [
                    "list",
                    "get",
                    "stream",
                    "timeline",
                    "logs",
                    "archived_logs",
                    "tags",
                    "references",
                    "pull",
                    "compatibility",
                    "endpoints"
                ]
                .contains(&verb),
                "{}",
                permission.as_str()
            );
        }
    }
}
