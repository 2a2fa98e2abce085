-- The chain of each cluster: a row for each change of an hour. Rows are only added.
create table if not exists chain (
  cluster text not null,
  hour timestamptz not null,
  sequence bigint not null,
  kind text not null,
  filed_at timestamptz not null,
  state text not null,
  rows_digest text not null,
  manifest_digest text not null,
  previous text not null,
  hash text not null,
  key_id text not null,
  signature text not null,
  primary key (cluster, sequence)
);
create index if not exists chain_hour on chain (cluster, hour);

-- The roles that may read and insert charges may also read and extend the chain.
do $$ declare granted record; begin
  for granted in
    select grantee, privilege_type from information_schema.table_privileges
    where table_schema = current_schema() and table_name = 'charges' and privilege_type in ('SELECT', 'INSERT') and grantee <> current_user
  loop
    execute format('grant %s on chain to %s', granted.privilege_type,
      case granted.grantee when 'PUBLIC' then 'public' else quote_ident(granted.grantee) end);
  end loop;
end $$;
