-- Queues of pods. Earlier rows have none.
alter table charges, corrections, monthly_charges
  add column if not exists queue varchar(256) not null after power_brake_ms,
  add column if not exists cluster_queue varchar(256) not null after queue;
alter table pods
  add column if not exists queue varchar(256) not null after requests,
  add column if not exists cluster_queue varchar(256) not null after queue;
alter table days
  add column if not exists queue varchar(256) not null after power_brake_ms,
  add column if not exists cluster_queue varchar(256) not null after queue;
