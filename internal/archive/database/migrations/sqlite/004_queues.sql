-- Queues of pods. Earlier rows have none.
alter table charges add column queue text not null default '';
alter table charges add column cluster_queue text not null default '';
alter table corrections add column queue text not null default '';
alter table corrections add column cluster_queue text not null default '';
alter table monthly_charges add column queue text not null default '';
alter table monthly_charges add column cluster_queue text not null default '';
alter table pods add column queue text not null default '';
alter table pods add column cluster_queue text not null default '';
alter table days add column queue text not null default '';
alter table days add column cluster_queue text not null default '';
