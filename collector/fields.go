package collector

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// FieldsPath is the path of the field page. The field page is separate from the main page. Otherwise a sum
// over the main page would count some values twice.
const FieldsPath = "/gpu/metrics"

// These are the names of the node label on the field page. The first name is used by dcgm-exporter up to
// 4.8.2, and the second name by later releases.
const (
	Hostname      = "Hostname"
	HostnameLower = "hostname"
)

// Fields renders the page at [FieldsPath]. The page contains selected DCGM fields with the labels of dcgm-exporter. The
// values come from a host engine or from NVML. The metrics on the page are not in the catalogue, because DCGM defines
// them and the user selects them. Fields implements [prometheus.TransactionalGatherer]. Fields is safe for concurrent
// use if the function that returns the snapshot is also safe for concurrent use.
type Fields struct {
	latest   func() *gpu.Snapshot
	hostname string
	// page returns the content of the page for a snapshot, or nil if there is no field page.
	page func(*gpu.Snapshot) *gpu.FieldPage

	mu       sync.Mutex // mu guards the fields below
	rows     []fieldRow // rows of the page at the last call of Revision
	revision uint64
}

// NewFields returns a collector that renders the field page of a host engine from the snapshots that latest returns.
// The argument hostname is the name of the label that contains the name of the node.
func NewFields(latest func() *gpu.Snapshot, hostname string) *Fields {
	return &Fields{latest: latest, hostname: hostname, page: func(s *gpu.Snapshot) *gpu.FieldPage { return s.Fields }}
}

type fieldRow struct {
	*gpu.FieldRow
	labels []*dto.LabelPair // labels sorted by name
}

func (r fieldRow) equal(o fieldRow) bool {
	return r.FieldRow == o.FieldRow && slices.EqualFunc(r.labels, o.labels, func(a, b *dto.LabelPair) bool {
		return *a.Name == *b.Name && *a.Value == *b.Value
	})
}

// Revision returns a number that changes only when the page changes.
func (c *Fields) Revision() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, rows := c.read()
	if !slices.EqualFunc(rows, c.rows, fieldRow.equal) {
		c.rows = rows
		c.revision++
	}
	return c.revision
}

// Gather implements [prometheus.TransactionalGatherer].
func (c *Fields) Gather() ([]*dto.MetricFamily, func(), error) {
	page, rows := c.read()
	var families []*dto.MetricFamily
	for i := range page.Fields {
		if f := newFieldFamily(&page.Fields[i], i, rows); len(f.Metric) > 0 {
			families = append(families, f)
		}
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(*a.Name, *b.Name) })
	return families, func() {}, nil
}

func newFieldFamily(field *gpu.PageField, i int, rows []fieldRow) *dto.MetricFamily {
	f := &dto.MetricFamily{Name: &field.Name, Help: &field.Help, Type: gauge.ToDTO()}
	if field.Counter {
		f.Type = counter.ToDTO()
	}
	for _, row := range rows {
		v := row.Values[i]
		switch {
		case v == nil:
		case field.Counter:
			f.Metric = append(f.Metric, &dto.Metric{Label: row.labels, Counter: &dto.Counter{Value: v}})
		default:
			f.Metric = append(f.Metric, &dto.Metric{Label: row.labels, Gauge: &dto.Gauge{Value: v}})
		}
	}
	return f
}

func (c *Fields) read() (page *gpu.FieldPage, rows []fieldRow) {
	s := c.latest()
	if s == nil {
		return new(gpu.FieldPage), nil
	}
	if page = c.page(s); page == nil {
		return new(gpu.FieldPage), nil
	}
	for i := range page.Rows {
		row := &page.Rows[i]
		k := slices.IndexFunc(s.GPUs, func(g gpu.GPU) bool { return g.UUID == row.UUID })
		twice := slices.ContainsFunc(rows, func(o fieldRow) bool { return o.UUID == row.UUID && o.GPUInstance == row.GPUInstance })
		if k >= 0 && s.GPUs[k].Present && !twice {
			rows = append(rows, fieldRow{row, c.labels(page, row, &s.GPUs[k], s.Node.Name)})
		}
	}
	return page, rows
}

// labels returns the labels of a row, sorted by name. If a label for a MIG instance or a pod would be
// empty, labels omits this label.
func (c *Fields) labels(page *gpu.FieldPage, row *gpu.FieldRow, g *gpu.GPU, node string) (l []*dto.LabelPair) {
	add := func(name, value string) {
		l = append(l, &dto.LabelPair{Name: &name, Value: new(labelvalue.Valid(value))})
	}
	add("gpu", strconv.Itoa(g.Index))
	add("UUID", g.UUID)
	add("pci_bus_id", g.PCIBusID)
	add("device", g.DeviceNode)
	add("modelName", g.Model)
	add(c.hostname, node)
	for i, name := range page.Labels {
		add(name, row.Labels[i])
	}
	if row.GPUInstance != "" {
		add("GPU_I_PROFILE", row.Profile)
		add("GPU_I_ID", row.GPUInstance)
	}
	if h := soleHolder(g.Holders, row.GPUInstance); h != nil && h.Kind == gpu.OwnerPod {
		add("namespace", h.Scope)
		add("pod", h.Name)
		add("container", h.Part)
	}
	slices.SortFunc(l, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
	return l
}

// soleHolder returns the container to which a GPU or MIG instance is allocated. If the allocation is
// unknown, soleHolder returns the container that uses the GPU or instance. If there are several such
// containers, it returns nil.
func soleHolder(holders []gpu.Holder, instance string) (sole *gpu.Holder) {
	for _, given := range []bool{true, false} {
		for i := range holders {
			h := &holders[i]
			if h.GPUInstance != instance || given != (h.Sharing != gpu.SharingNone && h.Sharing != gpu.SharingUnknown) {
				continue
			}
			if sole != nil {
				return nil
			}
			sole = h
		}
		if sole != nil {
			break
		}
	}
	return sole
}
