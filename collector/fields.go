package collector

import (
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// FieldsPath is where the field page is served. It is a page of its own, so that no sum
// over it and the main page counts anything twice.
const FieldsPath = "/gpu/metrics"

// Fields renders the field page: chosen fields of a DCGM host engine, with the labels
// that dcgm-exporter gives them. Its metrics are not in the catalogue, as they are
// DCGM's and the user's choice. It is safe for concurrent use if the function given to
// [NewFields] is.
type Fields struct {
	latest func() *gpu.Snapshot
	descs  atomic.Pointer[fieldDescs]
}

// NewFields returns a collector of the fields in what latest returns.
func NewFields(latest func() *gpu.Snapshot) *Fields { return &Fields{latest: latest} }

// The labels of the field page. Those of MIG instances and of pods are there only where
// there are such, as an empty label would be on every series otherwise.
var (
	fieldLabels    = []string{"gpu", "UUID", "pci_bus_id", "device", "modelName", "Hostname"}
	instanceLabels = []string{"GPU_I_PROFILE", "GPU_I_ID"}
	podLabels      = []string{"namespace", "pod", "container"}
)

// fieldDescs describe a page: each field in the four forms that its series can have.
type fieldDescs struct {
	page  *gpu.FieldPage
	forms [][4]*prometheus.Desc
}

// The forms, which are added up.
const (
	ofInstance = 1
	ofPod      = 2
)

func describe(page *gpu.FieldPage) *fieldDescs {
	d := &fieldDescs{page: page, forms: make([][4]*prometheus.Desc, len(page.Fields))}
	for i, f := range page.Fields {
		for form := range d.forms[i] {
			names := slices.Concat(fieldLabels, page.Labels)
			if form&ofInstance != 0 {
				names = append(names, instanceLabels...)
			}
			if form&ofPod != 0 {
				names = append(names, podLabels...)
			}
			d.forms[i][form] = prometheus.NewDesc(f.Name, f.Help, names, nil)
		}
	}
	return d
}

// Describe implements [prometheus.Collector]. Which metrics there are is up to the
// host engine.
func (*Fields) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *Fields) Collect(ch chan<- prometheus.Metric) {
	s := c.latest()
	if s == nil || s.Fields == nil {
		return
	}
	descs := c.descs.Load()
	if descs == nil || descs.page != s.Fields {
		descs = describe(s.Fields)
		c.descs.Store(descs)
	}
	for i := range s.Fields.Rows {
		row := &s.Fields.Rows[i]
		k := slices.IndexFunc(s.GPUs, func(g gpu.GPU) bool { return g.UUID == row.UUID })
		if k >= 0 && s.GPUs[k].Present {
			descs.collect(ch, row, &s.GPUs[k], s.Node.Name)
		}
	}
}

// collect renders what is said of one GPU or MIG instance.
func (d *fieldDescs) collect(ch chan<- prometheus.Metric, row *gpu.FieldRow, g *gpu.GPU, node string) {
	who := &labelSet{given: []string{strconv.Itoa(g.Index), g.UUID, g.PCIBusID, g.DeviceNode, g.Model, node}}
	who, form := &labelSet{who, row.Labels[:len(d.page.Labels)]}, 0
	if row.GPUInstance != "" {
		form += ofInstance
		who = &labelSet{who, []string{row.Profile, row.GPUInstance}}
	}
	if h := soleHolder(g.Holders, row.GPUInstance); h != nil {
		form += ofPod
		who = &labelSet{who, []string{h.Namespace, h.Pod, h.Container.Container}}
	}
	values := who.values(nil)
	for i, v := range row.Values {
		if v == nil {
			continue
		}
		kind := gauge
		if d.page.Fields[i].Counter {
			kind = counter
		}
		ch <- prometheus.MustNewConstMetric(d.forms[i][form], kind, *v, values...)
	}
}

// soleHolder returns the container that a GPU or MIG instance was given to, or that uses
// it if it is not known to be given to any; nil if there are several.
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
