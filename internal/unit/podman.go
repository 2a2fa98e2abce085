package unit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// readPodman returns the containers of Podman with the given ids. It reads the lists in the graph root and in the
// run root. The list in the run root may contain containers that Podman removes when they end.
func readPodman(roots []string, ids map[string]string) (map[string]container, error) {
	all := make(map[string]container)
	var missing, first error
	read := 0
	for _, root := range roots {
		for _, file := range []string{"containers.json", "volatile-containers.json"} {
			err := readDocument(filepath.Join(root, "overlay-containers", file), maxContainerList, func(d *document) error {
				return d.list(func() error { return readPodmanRow(d, ids, all) })
			})
			switch {
			case errors.Is(err, fs.ErrNotExist):
				missing = cmp.Or(missing, err)
			case err != nil:
				first = cmp.Or(first, err)
			default:
				read++
			}
		}
	}
	if read == 0 {
		first = cmp.Or(first, missing)
	}
	return all, first
}

// readPodmanRow adds the container from one row of a list of containers/storage, Podman's library. A row's metadata is
// a string that contains JSON.
func readPodmanRow(d *document, ids map[string]string, all map[string]container) error {
	var id, name, metadata string
	err := d.object(func(field string) error {
		switch field {
		case "id":
			return d.text(&id)
		case "names":
			return d.list(func() error {
				if name != "" {
					return d.skip()
				}
				return d.text(&name)
			})
		case "metadata":
			return d.text(&metadata)
		}
		return d.skip()
	})
	if _, wanted := ids[id]; wanted && err == nil && name != "" {
		all[id] = container{manager: Podman, name: name, image: imageOf(metadata)}
	}
	return err
}

func imageOf(metadata string) string {
	var m struct {
		Image string `json:"image-name"`
	}
	_ = json.Unmarshal([]byte(metadata), &m) // the image is unknown if the metadata is invalid
	return m.Image
}

// runtimeSpec contains some fields of config.json, the file that configures a container for its runtime (OCI runtime
// specification). It omits other fields, because the file also contains the container's environment.
type runtimeSpec struct {
	visible   visibleDevices
	hooked    bool             // set if NVIDIA's hook adds devices according to the environment
	gpus      []gpu.DeviceName // at most maxHeldLines
	instances []int64
	name      string
}

func (s *runtimeSpec) read(d *document) error {
	within := func(name string, read func() error) error {
		return d.object(func(field string) error {
			if field == name {
				return read()
			}
			return d.skip()
		})
	}
	return d.object(func(field string) error {
		switch field {
		case "annotations":
			return within("nerdctl/name", func() error { return d.text(&s.name) })
		case "process":
			return within("env", func() error { return s.visible.read(d) })
		case "hooks":
			return within("prestart", func() error {
				return d.list(func() error {
					return within("path", func() error {
						var path string
						err := d.text(&path)
						s.hooked = s.hooked || strings.HasPrefix(filepath.Base(path), "nvidia-container-")
						return err
					})
				})
			})
		case "linux":
			return within("devices", func() error {
				return d.list(func() error { return s.readDevice(d) })
			})
		}
		return d.skip()
	})
}

// readDevice reads one of the container's devices, such as /dev/nvidia0 for --device
// nvidia.com/gpu=0.
func (s *runtimeSpec) readDevice(d *document) error {
	var path string
	var major, minor int64
	err := d.object(func(field string) error {
		switch field {
		case "path":
			return d.text(&path)
		case "major":
			return d.number(&major)
		case "minor":
			return d.number(&minor)
		}
		return d.skip()
	})
	switch {
	case err != nil:
		return err
	case strings.HasPrefix(path, "/dev/nvidia-caps/") && minor != migConfig && minor != migMonitor:
		s.instances = append(s.instances, minor)
	case major == nvidiaMajor && 0 <= minor && minor <= lastGPU && len(s.gpus) < maxHeldLines:
		s.gpus = append(s.gpus, gpu.DeviceName{Node: fmt.Sprintf("nvidia%d", minor)})
	}
	return nil
}

// readPodmanDevices reads the GPUs of a container from <graph root>/overlay-containers/<id>/userdata.
func readPodmanDevices(roots []string, id, procFS string) ([]gpu.DeviceName, error) {
	var first error
	for _, root := range roots {
		var spec runtimeSpec
		err := readDocument(filepath.Join(root, "overlay-containers", id, "userdata", "config.json"), maxContainerFile, spec.read)
		if err == nil {
			return spec.devices(procFS)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			first = cmp.Or(first, err)
		}
	}
	return nil, first
}

// These are the numbers of NVIDIA's device nodes (nvidia-modprobe). Nodes with minor numbers above
// lastGPU belong to the driver as a whole.
const (
	nvidiaMajor = 195
	lastGPU     = 253
	// All capabilities except these two belong to a MIG device.
	migConfig, migMonitor = 1, 2
)

// devices returns the GPUs that a container holds. A container with a MIG device also gets the device node of the
// whole GPU, but it holds only the MIG device.
func (s runtimeSpec) devices(procFS string) ([]gpu.DeviceName, error) {
	switch {
	case s.hooked:
		return s.visible.devices(), nil
	case len(s.instances) == 0:
		return s.gpus, nil
	}
	partitions, err := readMIGMinors(procFS)
	if err != nil {
		return nil, err
	}
	list := s.gpus
	var held []gpu.DeviceName
	for _, minor := range s.instances {
		p, ok := partitions[minor]
		if !ok || len(list)+len(held) >= maxHeldLines { // a node without a GPU instance belongs to a compute instance
			continue
		}
		held = append(held, p)
		list = slices.DeleteFunc(list, func(d gpu.DeviceName) bool { return d.Partition == nil && d.Node == p.Node })
	}
	return append(list, held...), nil
}

// migAccess matches a line in the driver's list that describes the access to a GPU instance. The line contains three
// numbers: the GPU's minor number, the instance, and the minor number of the device node that grants access to the
// instance.
var migAccess = regexp.MustCompile(`(?m)^gpu([0-9]{1,3})/gi([0-9]{1,3})/access ([0-9]{1,6})$`)

// maxMIGMinors is the maximum size of the driver's list, in bytes. The list has a line for each
// instance that a GPU could have.
const maxMIGMinors = 1 << 20

// readMIGMinors returns the MIG instances by the minor numbers of their device nodes, from
// /proc/driver/nvidia-caps/mig-minors.
func readMIGMinors(procFS string) (map[int64]gpu.DeviceName, error) {
	data, _, err := readTrusted(filepath.Join(procFS, "driver/nvidia-caps/mig-minors"), maxMIGMinors)
	if err != nil {
		return nil, err
	}
	all := make(map[int64]gpu.DeviceName)
	for _, m := range migAccess.FindAllStringSubmatch(string(data), -1) {
		minor, _ := strconv.ParseInt(m[3], 10, 64) // at most six digits
		all[minor] = gpu.DeviceName{Node: "nvidia" + m[1], Partition: &gpu.PartitionName{Instance: m[2]}}
	}
	return all, nil
}
