-- Each month of these tables has a partition, except corrections and hours, which are small.
create table if not exists gpu_hours (
  cluster text not null,
  hour timestamptz not null,
  node text not null,
  uuid text not null,
  serial text not null,
  chassis_serial text not null,
  chassis_slot text not null,
  tray_index text not null,
  pci_bus_id text not null,
  model text not null,
  system_uuid text not null,
  machine text not null,
  first_seen timestamptz,
  last_seen timestamptz,
  scrapes bigint not null,
  energy_mj bigint not null,
  energy_source text not null,
  energy_scope text not null,
  xids text not null,
  losses bigint not null,
  energy_resets bigint not null,
  remapped_correctable bigint not null,
  remapped_uncorrectable bigint not null,
  primary key (cluster, hour, node, uuid)
) partition by range (hour);
create index if not exists gpu_hours_uuid on gpu_hours (uuid, hour);
create index if not exists gpu_hours_serial on gpu_hours (serial, hour);

create table if not exists charges (
  cluster text not null,
  hour timestamptz not null,
  node text not null,
  uuid text not null,
  serial text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  workload_kind text not null,
  workload_name text not null,
  workload_uid text not null,
  team text not null,
  reason text not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  primary key (cluster, hour, node, uuid, namespace, pod, pod_uid, reason)
) partition by range (hour);
create index if not exists charges_uuid on charges (uuid, hour);

create table if not exists pods (
  cluster text not null,
  hour timestamptz not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  node text not null,
  owner_kind text not null,
  owner_name text not null,
  workload_kind text not null,
  workload_name text not null,
  workload_uid text not null,
  team text not null,
  requests text not null,
  primary key (cluster, hour, pod_uid)
) partition by range (hour);

create table if not exists workloads (
  cluster text not null,
  hour timestamptz not null,
  kind text not null,
  namespace text not null,
  name text not null,
  uid text not null,
  parent_uid text not null,
  primary key (cluster, hour, uid)
) partition by range (hour);

create table if not exists corrections (
  cluster text not null,
  hour timestamptz not null,
  revision bigint not null,
  node text not null,
  uuid text not null,
  serial text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  workload_kind text not null,
  workload_name text not null,
  workload_uid text not null,
  team text not null,
  reason text not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  primary key (cluster, hour, revision, node, uuid, namespace, pod, pod_uid, reason)
);

create table if not exists hours (
  cluster text not null,
  hour timestamptz not null,
  state text not null,
  revision bigint not null,
  gpus bigint not null,
  charges bigint not null,
  energy_mj bigint not null,
  scrapes bigint not null,
  silent_nodes bigint not null,
  digest text not null,
  primary key (cluster, hour)
);

-- The version of the schema is the highest number of a migration.
create table if not exists schema_version (version integer primary key);
