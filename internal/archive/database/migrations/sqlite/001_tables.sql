-- Times are texts in UTC such as 2026-11-01T15:00:00.000Z, so that sorting the texts sorts the times.
create table if not exists gpu_hours (
  cluster text not null,
  hour text not null,
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
  first_seen text,
  last_seen text,
  scrapes bigint not null,
  energy_mj bigint not null,
  energy_source text not null,
  energy_scope text not null,
  xids text not null,
  losses bigint not null,
  energy_resets bigint not null,
  remapped_correctable bigint not null,
  remapped_uncorrectable bigint not null,
  uncounted_mj bigint not null,
  estimated_mj bigint not null,
  primary key (cluster, hour, node, uuid)
);
create index if not exists gpu_hours_uuid on gpu_hours (uuid, hour);
create index if not exists gpu_hours_serial on gpu_hours (serial, hour);

create table if not exists charges (
  cluster text not null,
  hour text not null,
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
  manager text not null,
  unit text not null,
  username text not null,
  estimated_mj bigint not null,
  busy_ms bigint not null,
  began text,
  ended text,
  primary key (cluster, hour, node, uuid, namespace, pod, pod_uid, manager, unit, reason)
);
create index if not exists charges_uuid on charges (uuid, hour);

create table if not exists pods (
  cluster text not null,
  hour text not null,
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
);

create table if not exists workloads (
  cluster text not null,
  hour text not null,
  kind text not null,
  namespace text not null,
  name text not null,
  uid text not null,
  parent_uid text not null,
  primary key (cluster, hour, uid)
);

create table if not exists events (
  cluster text not null,
  hour text not null,
  at text,
  id text not null,
  event text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  resource_version text not null,
  node text not null,
  owner_kind text not null,
  owner_name text not null,
  workload_kind text not null,
  workload_name text not null,
  workload_uid text not null,
  detail text not null,
  filed_by text not null,
  primary key (cluster, hour, id)
);
create index if not exists events_pod_uid on events (pod_uid, at);

create table if not exists snapshots (
  cluster text not null,
  hour text not null,
  at text,
  id text not null,
  namespace text not null,
  pod text not null,
  pod_uid text not null,
  resource_version text not null,
  node text not null,
  object text not null,
  filed_by text not null,
  primary key (cluster, hour, id)
);
create index if not exists snapshots_pod_uid on snapshots (pod_uid, at);

create table if not exists corrections (
  cluster text not null,
  hour text not null,
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
  manager text not null,
  unit text not null,
  username text not null,
  estimated_mj bigint not null,
  busy_ms bigint not null,
  began text,
  ended text,
  primary key (cluster, hour, revision, node, uuid, namespace, pod, pod_uid, manager, unit, reason)
);

create table if not exists hours (
  cluster text not null,
  hour text not null,
  state text not null,
  revision bigint not null,
  gpus bigint not null,
  charges bigint not null,
  energy_mj bigint not null,
  scrapes bigint not null,
  silent_nodes bigint not null,
  digest text not null,
  explained_nodes bigint not null,
  reason text not null,
  unknown_pods bigint not null,
  primary key (cluster, hour)
);

create table if not exists monthly_charges (
  cluster text not null,
  month text not null,
  hours text not null,
  model text not null,
  namespace text not null,
  workload_kind text not null,
  workload_name text not null,
  team text not null,
  reason text not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  manager text not null,
  unit text not null,
  username text not null,
  estimated_mj bigint not null,
  busy_ms bigint not null
);
create index if not exists monthly_charges_month on monthly_charges (month, cluster);

-- The version of the schema is the highest number of a migration.
create table if not exists schema_version (version integer primary key);
