package files

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Filed returns the row of an hour in the manifest. It returns zero unless all formats contain the hour.
func (s *Sink) Filed(ctx context.Context, cluster string, hour time.Time) (filed table.Filed, err error) {
	for i, as := range s.formats {
		rows, err := s.hour(ctx, dayFile(as, table.Hours, cluster, hour), hour)
		if err != nil {
			return table.Filed{}, err
		}
		found := table.Filed{}
		if len(rows) > 0 {
			found = table.FiledIn(rows[0])
		}
		if i > 0 && found != filed {
			return table.Filed{}, nil
		}
		filed = found
	}
	return filed, nil
}

// Nodes returns the nodes that had GPUs in the last archived hour of a cluster. The hour begins in [from, until).
func (s *Sink) Nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error) {
	for day := until.Add(-1).UTC().Truncate(24 * time.Hour); day.Add(24 * time.Hour).After(from); day = day.AddDate(0, 0, -1) {
		rows, err := s.rows(ctx, s.first(table.Hours, cluster, day))
		if err != nil {
			return nil, err
		}
		for _, row := range slices.Backward(rows) {
			if hour := row[hourColumn].(time.Time); !hour.Before(from) && hour.Before(until) {
				gpus, err := s.hour(ctx, s.first(table.GPUHours, cluster, hour), hour)
				return table.NodesIn(gpus), err
			}
		}
	}
	return nil, nil
}

// Clusters returns the first and last archived hour of each cluster since a time.
func (s *Sink) Clusters(ctx context.Context, since time.Time) (map[string]table.Span, error) {
	folders, err := clustersIn(ctx, s.storage, table.Hours)
	if err != nil {
		return nil, err
	}
	spans := make(map[string]table.Span)
	for folder, cluster := range folders {
		span, err := s.span(ctx, cluster, folder, since)
		if err != nil {
			return nil, err
		}
		if span != (table.Span{}) {
			spans[cluster] = span
		}
	}
	return spans, nil
}

func clustersIn(ctx context.Context, s storage, t table.Table) (map[string]string, error) {
	folders, err := find(ctx, s, t.Name, true)
	if err != nil {
		return nil, err
	}
	clusters := make(map[string]string)
	for _, f := range folders {
		name := path.Base(f.name)
		escaped, found := strings.CutPrefix(name, "cluster=")
		if cluster, err := url.PathUnescape(escaped); found && err == nil {
			clusters[name] = cluster
		}
	}
	return clusters, nil
}

func daysIn(ctx context.Context, s storage, t table.Table, folder string) (days []time.Time, err error) {
	folders, err := find(ctx, s, path.Join(t.Name, folder), true)
	for _, f := range folders {
		if day, err := time.Parse("date="+time.DateOnly, path.Base(f.name)); err == nil {
			days = append(days, day)
		}
	}
	return days, err
}

func (s *Sink) span(ctx context.Context, cluster, folder string, since time.Time) (span table.Span, err error) {
	days, err := daysIn(ctx, s.storage, table.Hours, folder)
	if err != nil {
		return span, err
	}
	for _, day := range days {
		if !day.AddDate(0, 0, 1).After(since) {
			continue
		}
		rows, _, err := s.read(ctx, s.first(table.Hours, cluster, day), "")
		if err != nil {
			return span, fmt.Errorf("manifest of %s: %w", day.Format(time.DateOnly), err)
		}
		for _, row := range rows {
			if hour := row[hourColumn].(time.Time); !hour.Before(since) {
				span = span.Extend(hour)
			}
		}
	}
	return span, nil
}

// Elsewhere returns the GPUs that were scraped in an archived hour. It omits the GPUs of the clusters in except.
func (s *Sink) Elsewhere(ctx context.Context, except []string, hour time.Time) (found []table.Seen, err error) {
	clusters, err := clustersIn(ctx, s.storage, table.Hours)
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters {
		if slices.Contains(except, cluster) {
			continue
		}
		filed, err := s.hour(ctx, s.first(table.Hours, cluster, hour), hour)
		if err != nil {
			return nil, err
		}
		if len(filed) == 0 {
			continue
		}
		seen, err := s.seen(ctx, cluster, hour)
		if err != nil {
			return nil, err
		}
		found = append(found, seen...)
	}
	return found, nil
}

// seen decodes only the columns that it needs.
func (s *Sink) seen(ctx context.Context, cluster string, hour time.Time) (all []table.Seen, err error) {
	f := s.first(table.GPUHours, cluster, hour)
	in, _, err := s.storage.open(ctx, f.name, "")
	if err != nil || in == nil {
		return nil, err
	}
	defer in.Close()
	columns := []string{"hour", "scrapes", "node", "uuid", "serial", "first_seen", "last_seen"}
	err = f.scan(in, columns, func(row []table.Cell) {
		if row[0].Int == hour.UnixMilli() && row[1].Int > 0 {
			all = append(all, table.Seen{Cluster: cluster, Node: row[2].Text, UUID: row[3].Text, Serial: row[4].Text, First: row[5].Time(), Last: row[6].Time()})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.name, err)
	}
	return all, nil
}

// Intact reports whether the rows of an hour match the digest in the manifest. In a folder it is always true, because
// only one program writes to a folder. In a bucket, rows of two programs may be mixed. This happens if both write
// different rows for an hour, and are killed before their last check. The digest does not include corrections.
func (s *Sink) Intact(ctx context.Context, cluster string, hour time.Time) (bool, error) {
	if !s.shared {
		return true, nil
	}
	for _, as := range s.formats {
		filed, err := s.hour(ctx, dayFile(as, table.Hours, cluster, hour), hour)
		if err != nil || len(filed) == 0 || table.StateIn(filed[0]) == table.Corrected || table.StateIn(filed[0]) == table.Pruned {
			return err == nil, err
		}
		digest := table.DigestRows(func(t table.Table) [][]any {
			rows, e := s.hour(ctx, dayFile(as, t, cluster, hour), hour)
			err = errors.Join(err, e)
			return rows
		})
		if err != nil || digest != table.FiledIn(filed[0]).Digest {
			return false, err
		}
	}
	return true, nil
}

// Charges returns the charges and the corrections of an hour. A crash can leave corrections with a later revision than
// the manifest. Charges ignores them.
func (s *Sink) Charges(ctx context.Context, cluster string, hour time.Time) (charges []table.Charge, err error) {
	filed, err := s.Filed(ctx, cluster, hour)
	if err != nil {
		return nil, err
	}
	for _, t := range []table.Table{table.Charges, table.Corrections} {
		rows, err := s.hour(ctx, s.first(t, cluster, hour), hour)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if t.Name == table.Charges.Name || row[revisionColumn].(int64) <= filed.Revision {
				charges = append(charges, table.ChargeIn(t, row))
			}
		}
	}
	return charges, nil
}
