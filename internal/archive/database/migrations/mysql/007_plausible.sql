-- Pods that no series names. Earlier hours have none. MySQL has no "add column if not exists".
alter table hours
  add column if not exists unknown_pods bigint not null after reason;
