-- The number of silent nodes that are explained, and the reason for accepted gaps.
alter table hours
  add column if not exists explained_nodes bigint not null default 0,
  add column if not exists reason text not null default '';

update hours set reason = 'filed by an earlier version' where state = 'gaps' and reason = '';
