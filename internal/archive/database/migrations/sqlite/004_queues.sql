-- Queues of pods. Earlier rows have none.
alter table charges, corrections, monthly_charges, pods, days
  add column if not exists queue text not null default '',
  add column if not exists cluster_queue text not null default '';
