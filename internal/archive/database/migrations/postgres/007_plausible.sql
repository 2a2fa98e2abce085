-- The number of pods that no series names. It is 0 in earlier hours.
alter table hours
  add column if not exists unknown_pods bigint not null default 0;
