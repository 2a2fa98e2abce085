-- Texts are compared byte by byte. The primary key contains the number of a row instead of names, because
-- names of nodes and pods may have 253 characters, and every other index contains a copy of the primary key.
-- The number is invisible, so that tables have the same columns in all databases.
create table if not exists gpu_hours (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  node varchar(255) not null,
  uuid varchar(255) not null,
  serial varchar(255) not null,
  chassis_serial varchar(255) not null,
  chassis_slot varchar(255) not null,
  tray_index varchar(255) not null,
  pci_bus_id varchar(255) not null,
  model varchar(255) not null,
  system_uuid varchar(255) not null,
  machine varchar(255) not null,
  first_seen datetime(3),
  last_seen datetime(3),
  scrapes bigint not null,
  energy_mj bigint not null,
  energy_source varchar(255) not null,
  energy_scope varchar(255) not null,
  xids text not null,
  losses bigint not null,
  energy_resets bigint not null,
  remapped_correctable bigint not null,
  remapped_uncorrectable bigint not null,
  n int not null default 0 invisible,
  primary key (cluster, hour, n),
  index gpu_hours_uuid (uuid, hour),
  index gpu_hours_serial (serial, hour)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

create table if not exists charges (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  node varchar(255) not null,
  uuid varchar(255) not null,
  serial varchar(255) not null,
  namespace varchar(255) not null,
  pod varchar(255) not null,
  pod_uid varchar(255) not null,
  workload_kind varchar(255) not null,
  workload_name varchar(255) not null,
  workload_uid varchar(255) not null,
  team varchar(255) not null,
  reason varchar(255) not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  n int not null default 0 invisible,
  primary key (cluster, hour, n),
  index charges_uuid (uuid, hour)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

create table if not exists pods (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  namespace varchar(255) not null,
  pod varchar(255) not null,
  pod_uid varchar(255) not null,
  node varchar(255) not null,
  owner_kind varchar(255) not null,
  owner_name varchar(255) not null,
  workload_kind varchar(255) not null,
  workload_name varchar(255) not null,
  workload_uid varchar(255) not null,
  team varchar(255) not null,
  requests text not null,
  n int not null default 0 invisible,
  primary key (cluster, hour, n)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

create table if not exists workloads (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  kind varchar(255) not null,
  namespace varchar(255) not null,
  name varchar(255) not null,
  uid varchar(255) not null,
  parent_uid varchar(255) not null,
  n int not null default 0 invisible,
  primary key (cluster, hour, n)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

create table if not exists corrections (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  revision bigint not null,
  node varchar(255) not null,
  uuid varchar(255) not null,
  serial varchar(255) not null,
  namespace varchar(255) not null,
  pod varchar(255) not null,
  pod_uid varchar(255) not null,
  workload_kind varchar(255) not null,
  workload_name varchar(255) not null,
  workload_uid varchar(255) not null,
  team varchar(255) not null,
  reason varchar(255) not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  n int not null default 0 invisible,
  primary key (cluster, hour, revision, n)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

create table if not exists hours (
  cluster varchar(255) not null,
  hour datetime(3) not null,
  state varchar(255) not null,
  revision bigint not null,
  gpus bigint not null,
  charges bigint not null,
  energy_mj bigint not null,
  scrapes bigint not null,
  silent_nodes bigint not null,
  digest varchar(255) not null,
  primary key (cluster, hour)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;

-- The version of the schema is the highest number of a migration.
create table if not exists schema_version (version int primary key);
