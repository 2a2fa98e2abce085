-- Queues of pods. Earlier rows have none.
alter table charges
  add column if not exists queue text not null default '',
  add column if not exists cluster_queue text not null default '';
alter table corrections
  add column if not exists queue text not null default '',
  add column if not exists cluster_queue text not null default '';
alter table monthly_charges
  add column if not exists queue text not null default '',
  add column if not exists cluster_queue text not null default '';
alter table pods
  add column if not exists queue text not null default '',
  add column if not exists cluster_queue text not null default '';
alter table days
  add column if not exists queue text not null default '',
  add column if not exists cluster_queue text not null default '';
