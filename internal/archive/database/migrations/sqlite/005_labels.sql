-- Labels of pods. Earlier rows have none.
alter table charges, corrections, monthly_charges, pods, days add column if not exists labels text not null default '';
