-- The sums of pruned hours. Charges with the same texts are added up.
create table if not exists monthly_charges (
  cluster varchar(256) not null,
  month datetime(3) not null,
  hours text not null,
  model varchar(256) not null,
  namespace varchar(256) not null,
  workload_kind varchar(256) not null,
  workload_name varchar(256) not null,
  team varchar(256) not null,
  reason varchar(256) not null,
  energy_mj bigint not null,
  exclusive_mj bigint not null,
  idle_mj bigint not null,
  held_ms bigint not null,
  gpu_ms bigint not null,
  active_ms bigint not null,
  manager varchar(256) not null,
  unit varchar(256) not null,
  username varchar(256) not null,
  n bigint not null auto_increment invisible,
  primary key (n),
  index monthly_charges_month (month, cluster)
) engine = innodb, character set utf8mb4 collate utf8mb4_bin;
