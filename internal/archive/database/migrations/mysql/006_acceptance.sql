-- The number of silent nodes that are explained, and the reason for accepted gaps.
alter table hours
  add column if not exists explained_nodes bigint not null after digest,
  add column if not exists reason varchar(256) not null after explained_nodes;

update hours set reason = 'filed by an earlier version' where state = 'gaps' and reason = '';
