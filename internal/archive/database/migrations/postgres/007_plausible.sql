-- Pods that no series names. Earlier hours have none.
alter table hours
  add column if not exists unknown_pods bigint not null default 0;
