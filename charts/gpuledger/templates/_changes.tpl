{{/* Changes an object in place. Arguments: root, object. */}}
{{- define "gpuledger.change" -}}
{{- $namespace := include "gpuledger.namespace" .root }}
{{- $metadata := .object.metadata }}
{{- if eq (default "" $metadata.namespace) "gpuledger" }}{{ $_ := set $metadata "namespace" $namespace }}{{ end }}
{{- $_ := set $metadata "labels" (merge (include "gpuledger.labels" .root | fromYaml) $metadata.labels) }}
{{- range .object.subjects }}{{ if eq .namespace "gpuledger" }}{{ $_ := set . "namespace" $namespace }}{{ end }}{{ end }}
{{- $change := printf "gpuledger.change.%s" .object.kind }}
{{- if hasSuffix "AdmissionPolicy" $change }}{{ $change = "gpuledger.change.Policy" }}{{ end }}
{{- $kinds := list "ConfigMap" "DaemonSet" "Deployment" "MutatingAdmissionPolicyBinding" "MutatingWebhookConfiguration" "NetworkPolicy" "PodMonitor" "Policy" "PrometheusRule" "Role" "RoleBinding" "ServiceAccount" }}
{{- if has (trimPrefix "gpuledger.change." $change) $kinds }}{{ include $change . }}{{ end }}
{{- end }}

{{- define "gpuledger.change.DaemonSet" -}}
{{- if eq .object.metadata.name "gpuledger-prepull" }}
{{- $pod := .object.spec.template.spec }}
{{- include "gpuledger.change.pod" (dict "root" .root "pod" $pod "container" (first $pod.containers) "image" .root.Values.image "values" (pick .root.Values "priorityClassName")) }}
{{- else }}
{{- include "gpuledger.change.exporter" . }}
{{- end }}
{{- end }}

{{/* Returns the flags for DCGM, as a list in YAML. */}}
{{- define "gpuledger.dcgmArgs" -}}
{{- with .Values.dcgm }}
{{- if .enabled }}
- --dcgm.address={{ .address }}
- --dcgm.fields={{ .fields }}
{{- else }}[]{{ end }}
{{- end }}
{{- end }}

{{/* Changes the exporter's own DaemonSet. */}}
{{- define "gpuledger.change.exporter" -}}
{{- $v := .root.Values }}
{{- $template := .object.spec.template }}
{{- $pod := $template.spec }}
{{- $container := first $pod.containers }}
{{- if $v.updateStrategy }}{{ $_ := set .object.spec "updateStrategy" $v.updateStrategy }}{{ end }}
{{- if $v.scrapeAnnotations.enabled }}
{{- $annotations := dict "prometheus.io/scrape" "true" "prometheus.io/port" "9840" "prometheus.io/path" "/metrics" }}
{{- $_ := set $template.metadata "annotations" (merge $annotations $template.metadata.annotations) }}
{{- end }}
{{- include "gpuledger.change.metadata" (dict "metadata" $template.metadata "values" $v) }}
{{- include "gpuledger.change.pod" (dict "root" .root "pod" $pod "container" $container "image" $v.image "values" $v) }}
{{- with $v.securityContext.seLinuxOptions }}{{ $_ := set $container.securityContext "seLinuxOptions" . }}{{ end }}
{{- if $v.runtimeClassName }}{{ $_ := set $pod "runtimeClassName" $v.runtimeClassName }}{{ end }}
{{- range $pod.volumes }}
{{- if .hostPath }}{{ $_ := set .hostPath "path" (regexReplaceAll "^/var/lib/kubelet/" .hostPath.path (printf "%s/" (trimSuffix "/" $v.kubeletPath))) }}{{ end }}
{{- end }}
{{- range $v.extraHostVolumes }}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" .name "hostPath" (dict "path" .hostPath))) }}
{{- end }}
{{- $_ := set $container "env" (concat $container.env $v.extraEnv) }}
{{- $_ := set $container "volumeMounts" (concat $container.volumeMounts $v.extraVolumeMounts) }}
{{- with $v.web.existingSecret }}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" "gpuledger-web" "secret" (dict "optional" true "secretName" .))) }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" "gpuledger-web" "mountPath" "/etc/gpuledger" "readOnly" true)) }}
{{- $_ := set $container "args" (append $container.args "--web.config.file=/etc/gpuledger/web-config.yml") }}
{{- end }}
{{- if $v.nfd.enabled }}
{{- $folder := "/etc/kubernetes/node-feature-discovery/features.d" }}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" "gpuledger-features" "hostPath" (dict "path" $folder))) }}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts (dict "name" "gpuledger-features" "mountPath" $folder)) }}
{{- $_ := set $container "args" (append $container.args (printf "--nfd.features=%s" $folder)) }}
{{- end }}
{{- $_ := set $container "args" (concat $container.args (include "gpuledger.dcgmArgs" .root | fromYamlArray) $v.extraArgs) }}
{{- end }}

{{/* Applies the settings that all pods have in common. Arguments: root, pod, container, image, and values with the settings. */}}
{{- define "gpuledger.change.pod" -}}
{{- $_ := set .container "image" (include "gpuledger.image" (dict "root" .root "image" .image)) }}
{{- with .root.Values.image.pullPolicy }}{{ $_ := set $.container "imagePullPolicy" . }}{{ end }}
{{- with include "gpuledger.pullSecrets" .root | fromYamlArray }}{{ $_ := set $.pod "imagePullSecrets" . }}{{ end }}
{{- with .values.resources }}{{ $_ := set $.container "resources" . }}{{ end }}
{{- with .values.nodeSelector }}{{ $_ := set $.pod "nodeSelector" (merge $.pod.nodeSelector .) }}{{ end }}
{{- with .values.affinity }}{{ $_ := set $.pod "affinity" . }}{{ end }}
{{- with .values.tolerations }}{{ $_ := set $.pod "tolerations" . }}{{ end }}
{{- with .values.priorityClassName }}{{ $_ := set $.pod "priorityClassName" . }}{{ end }}
{{- with .values.topologySpreadConstraints }}{{ $_ := set $.pod "topologySpreadConstraints" . }}{{ end }}
{{- end }}

{{/* Adds labels and annotations to pods. Selectors depend on the existing labels, so those labels stay. Arguments: metadata, values. */}}
{{- define "gpuledger.change.metadata" -}}
{{- with .values.podLabels }}{{ $_ := set $.metadata "labels" (merge $.metadata.labels .) }}{{ end }}
{{- with .values.podAnnotations }}{{ $_ := set $.metadata "annotations" (merge (deepCopy .) (default dict $.metadata.annotations)) }}{{ end }}
{{- end }}

{{/* Changes the service accounts of the reconciler and the archive. */}}
{{- define "gpuledger.change.ServiceAccount" -}}
{{- $v := .root.Values }}
{{- $metadata := .object.metadata }}
{{- $account := dict }}
{{- if eq $metadata.name "gpuledger-reconciler" }}{{ $account = $v.reconciler.serviceAccount }}{{ end }}
{{- if eq $metadata.name "gpuledger-archive" }}
{{- $account = $v.archive.serviceAccount }}
{{- with $account.name }}{{ $_ := set $metadata "name" . }}{{ end }}
{{- end }}
{{- with $account.annotations }}{{ $_ := set $metadata "annotations" . }}{{ end }}
{{- end }}

{{/* Changes the Deployments of the reconciler and the archive. */}}
{{- define "gpuledger.change.Deployment" -}}
{{- $pod := .object.spec.template.spec }}
{{- $container := first $pod.containers }}
{{- if eq .object.metadata.name "gpuledger-archive" }}
{{- include "gpuledger.change.archive" (dict "root" .root "object" .object "pod" $pod "container" $container) }}
{{- else }}
{{- include "gpuledger.change.reconciler" (dict "root" .root "object" .object "pod" $pod "container" $container) }}
{{- end }}
{{- end }}

{{- define "gpuledger.change.reconciler" -}}
{{- $v := .root.Values.reconciler }}
{{- include "gpuledger.change.pod" (dict "root" .root "pod" .pod "container" .container "image" $v.image "values" $v) }}
{{- include "gpuledger.change.metadata" (dict "metadata" .object.spec.template.metadata "values" $v) }}
{{- $_ := set .object.spec "replicas" $v.replicas }}
{{- $env := .container.env }}
{{- $exporters := compact (list (include "gpuledger.exporters" .root) (include "gpuledger.kept" .root)) }}
{{- range $env }}{{ if eq .name "EXPORTERS" }}{{ $_ := set . "value" (join "," $exporters) }}{{ end }}{{ end }}
{{- $args := list }}
{{- range .container.args }}
{{- $args = append $args (and (eq . "--dry-run=true") $v.labels.enabled | ternary "--dry-run=false" .) }}
{{- end }}
{{- if eq $v.labels.scheme "gpuid" }}{{ $args = append $args "--label-scheme=gpuid" }}{{ end }}
{{- $archive := .root.Values.archive }}
{{- if and $archive.enabled $archive.events.enabled }}
{{- $url := printf "http://gpuledger-archive.%s:9841" (include "gpuledger.namespace" .root) }}
{{- $env = concat (list (dict "name" "EVENTS_URL" "value" $url) (dict "name" "EVENTS_CLUSTER" "value" $archive.events.cluster)) $env }}
{{- $args = concat $args (list "--events.url=$(EVENTS_URL)" "--events.cluster=$(EVENTS_CLUSTER)") }}
{{- $args = concat $args (list "--events.token-file=/etc/gpuledger/events/token" "--events.token-over-http") }}
{{- $_ := set .pod.securityContext "fsGroup" .pod.securityContext.runAsGroup }}
{{- include "gpuledger.eventsSecret" (dict "root" .root "pod" .pod "container" .container "key" "token") }}
{{- end }}
{{- if $v.nodeCondition.enabled }}{{ $args = append $args "--node-condition" }}{{ end }}
{{- with $v.expectedInventory.existingConfigMap }}
{{- $folder := "/etc/gpuledger/expected" }}
{{- $mounts := list (dict "name" "expected" "mountPath" $folder "readOnly" true) }}
{{- $volumes := list (dict "name" "expected" "configMap" (dict "name" . "optional" true)) }}
{{- $_ := set $.container "volumeMounts" (concat $mounts (default list $.container.volumeMounts)) }}
{{- $_ := set $.pod "volumes" (concat $volumes (default list $.pod.volumes)) }}
{{- $args = append $args (printf "--expected-inventory=%s" $folder) }}
{{- end }}
{{- if eq (include "gpuledger.injector" .root) "webhook" }}
{{- $args = concat $args (include "gpuledger.webhookArgs" . | fromYamlArray) }}
{{- end }}
{{- $_ := set .container "env" (concat $env $v.extraEnv) }}
{{- $_ := set .container "args" (concat $args $v.extraArgs) }}
{{- end }}

{{/* Mounts a key of the Secret that contains the token for events. Arguments: root, pod, container, key. */}}
{{- define "gpuledger.eventsSecret" -}}
{{- $secret := dict "secretName" (include "gpuledger.eventsSecretName" .root) "items" (list (dict "key" .key "path" .key)) "defaultMode" 288 "optional" true }}
{{- $mount := dict "name" "events" "mountPath" "/etc/gpuledger/events" "readOnly" true }}
{{- $_ := set .pod "volumes" (prepend (default list .pod.volumes) (dict "name" "events" "secret" $secret)) }}
{{- $_ := set .container "volumeMounts" (prepend (default list .container.volumeMounts) $mount) }}
{{- end }}

{{- define "gpuledger.change.archive" -}}
{{- $v := .root.Values.archive }}
{{- include "gpuledger.change.pod" (dict "root" .root "pod" .pod "container" .container "image" $v.image "values" $v) }}
{{- $metadata := .object.spec.template.metadata }}
{{- $_ := set $metadata "annotations" (dict "checksum/config" (include "gpuledger.archiveConfig" .root | sha256sum)) }}
{{- include "gpuledger.change.metadata" (dict "metadata" $metadata "values" $v) }}
{{- $account := $v.serviceAccount }}
{{- $_ := set .pod "serviceAccountName" (default ($account.create | ternary "gpuledger-archive" "default") $account.name) }}
{{- range .container.env }}{{ with dig "valueFrom" "secretKeyRef" nil . }}{{ $_ := set . "name" $v.existingSecret }}{{ end }}{{ end }}
{{- range .pod.volumes }}{{ with .secret }}{{ $_ := set . "secretName" $v.existingSecret }}{{ end }}{{ end }}
{{- $args := .container.args }}
{{- with $v.mysqlUrl }}{{ $args = concat $args (list (printf "--mysql.url=%s" .) "--mysql.password-file=/etc/gpuledger/archive/mysql-password") }}{{ end }}
{{- with $v.s3.url }}{{ $args = append $args (printf "--s3.url=%s" .) }}{{ end }}
{{- with $v.s3.endpoint }}{{ $args = append $args (printf "--s3.endpoint=%s" .) }}{{ end }}
{{- with $v.s3.region }}{{ $args = append $args (printf "--s3.region=%s" .) }}{{ end }}
{{- with $v.teamLabel }}{{ $args = append $args (printf "--team.label=%s" .) }}{{ end }}
{{- if $v.events.enabled }}
{{- $args = concat $args (list "--events.receive" "--events.token-file=/etc/gpuledger/events/tokens" "--events.dead-letter=/var/lib/gpuledger/dead-letters.jsonl") }}
{{- $_ := set .pod "volumes" (prepend .pod.volumes (dict "name" "dead-letters" "emptyDir" (dict "sizeLimit" "300Mi"))) }}
{{- $_ := set .container "volumeMounts" (prepend .container.volumeMounts (dict "name" "dead-letters" "mountPath" "/var/lib/gpuledger")) }}
{{- include "gpuledger.eventsSecret" (dict "root" .root "pod" .pod "container" .container "key" "tokens") }}
{{- end }}
{{- $args = concat $args (include "gpuledger.chainArgs" (dict "root" .root "pod" .pod "container" .container) | fromYamlArray) }}
{{- if $v.web.enabled }}
{{- $args = concat $args (include "gpuledger.pagesArgs" (dict "root" .root "pod" .pod "container" .container) | fromYamlArray) }}
{{- end }}
{{- $_ := set .container "env" (concat .container.env $v.extraEnv) }}
{{- $_ := set .container "args" (concat $args $v.extraArgs) }}
{{- end }}

{{/* Mounts a Secret or a ConfigMap into the archive's container. Arguments: pod, container, name, folder, and volume with its source. */}}
{{- define "gpuledger.mount" -}}
{{- $_ := set .pod "volumes" (prepend .pod.volumes (merge (dict "name" .name) .volume)) }}
{{- $mount := dict "name" .name "mountPath" .folder "readOnly" true }}
{{- $_ := set .container "volumeMounts" (prepend .container.volumeMounts $mount) }}
{{- end }}

{{/* Returns the archive's flags for the chain, as a list in YAML. Arguments: root, pod, container. */}}
{{- define "gpuledger.chainArgs" -}}
{{- $chain := .root.Values.archive.chain }}
{{- with $chain.keySecret }}
{{- $volume := dict "secret" (dict "secretName" . "items" (list (dict "key" "chain.pem" "path" "chain.pem")) "defaultMode" 288) }}
{{- include "gpuledger.mount" (dict "pod" $.pod "container" $.container "name" "chain" "folder" "/etc/gpuledger/chain" "volume" $volume) }}
- --chain.key=/etc/gpuledger/chain/chain.pem
{{- else }}[]
{{- end }}
{{- with $chain.configMap }}
- --chain.publish=configmap:{{ include "gpuledger.namespace" $.root }}/{{ . }}
{{- end }}
{{- range $chain.publish }}
- {{ printf "--chain.publish=%s" . | quote }}
{{- end }}
{{- if or $chain.configMap (contains "configmap:" (join " " $chain.publish)) }}{{ $_ := set .pod "automountServiceAccountToken" true }}{{ end }}
{{- end }}

{{/* Returns the archive's flags for the pages, as a list in YAML. Arguments: root, pod, container. */}}
{{- define "gpuledger.pagesArgs" -}}
{{- $web := .root.Values.archive.web }}
- --web.pages
{{- with $web.existingSecret }}
{{- include "gpuledger.mount" (dict "pod" $.pod "container" $.container "name" "web" "folder" "/etc/gpuledger/web" "volume" (dict "secret" (dict "secretName" . "defaultMode" 288))) }}
{{- $_ := set $.container "readinessProbe" (dict "tcpSocket" (dict "port" "metrics")) }}
- --web.config.file=/etc/gpuledger/web/web-config.yml
{{- end }}
{{- if or $web.readersSecret $web.readersConfigMap }}
{{- $volume := dict "configMap" (dict "name" $web.readersConfigMap) }}
{{- with $web.readersSecret }}{{ $volume = dict "secret" (dict "secretName" . "defaultMode" 288) }}{{ end }}
{{- include "gpuledger.mount" (dict "pod" .pod "container" .container "name" "readers" "folder" "/etc/gpuledger/readers" "volume" $volume) }}
- --web.pages.readers=/etc/gpuledger/readers/readers.yaml
{{- end }}
{{- with $web.existingConfigMap }}
{{- include "gpuledger.mount" (dict "pod" $.pod "container" $.container "name" "pages" "folder" "/etc/gpuledger/pages" "volume" (dict "configMap" (dict "name" .))) }}
- --web.pages.config=/etc/gpuledger/pages/config.yaml
{{- end }}
{{- if $web.insecure }}
- --web.pages.insecure
{{- end }}
{{- if $web.logReads }}
- --web.pages.log-reads
{{- end }}
{{- end }}

{{/* Changes the right to update the ConfigMap with the checkpoints. */}}
{{- define "gpuledger.change.Role" -}}
{{- if eq .object.metadata.name "gpuledger-checkpoints" }}
{{- $_ := set (first .object.rules) "resourceNames" (list .root.Values.archive.chain.configMap) }}
{{- end }}
{{- end }}

{{- define "gpuledger.change.RoleBinding" -}}
{{- if eq .object.metadata.name "gpuledger-checkpoints" }}
{{- $account := .root.Values.archive.serviceAccount }}
{{- $_ := set (first .object.subjects) "name" (default ($account.create | ternary "gpuledger-archive" "default") $account.name) }}
{{- end }}
{{- end }}

{{/* Returns the environment of the archive. */}}
{{- define "gpuledger.archiveConfig" -}}
{{- $v := .Values.archive }}
{{- dict "STORE_URL" $v.store.url "STORE_TYPE" $v.store.type "STORE_HTTP_CONFIG" $v.store.httpConfigFile "CLUSTER" $v.cluster "POSTGRES_URL" $v.postgresUrl | toYaml }}
{{- end }}

{{/* Changes the ConfigMaps with the archive's environment, the policy's parameters, and the dashboards. */}}
{{- define "gpuledger.change.ConfigMap" -}}
{{- $v := .root.Values }}
{{- $metadata := .object.metadata }}
{{- if eq $metadata.name "gpuledger-archive" }}
{{- $_ := set .object "data" (include "gpuledger.archiveConfig" .root | fromYaml) }}
{{- else if eq $metadata.name "gpuledger-checkpoints" }}
{{- $_ := set $metadata "name" $v.archive.chain.configMap }}
{{- else if eq $metadata.name "gpuledger-sidecar" }}
{{- $data := dict "image" (include "gpuledger.image" (dict "root" .root "image" $v.image)) }}
{{- with $v.sidecar.nodes }}{{ $_ := set $data "nodes" . }}{{ end }}
{{- with $v.sidecar.selinuxType }}{{ $_ := set $data "selinuxType" . }}{{ end }}
{{- with $v.image.pullPolicy }}{{ $_ := set $data "pullPolicy" . }}{{ end }}
{{- with concat (include "gpuledger.dcgmArgs" .root | fromYamlArray) $v.extraArgs }}{{ $_ := set $data "arguments" (join "\n" .) }}{{ end }}
{{- with $v.web.existingSecret }}{{ $_ := set $data "webSecret" . }}{{ end }}
{{- $secrets := list }}
{{- range include "gpuledger.pullSecrets" .root | fromYamlArray }}{{ $secrets = append $secrets .name }}{{ end }}
{{- with $secrets }}{{ $_ := set $data "pullSecrets" (join ", " .) }}{{ end }}
{{- $_ := set .object "data" $data }}
{{- else }}
{{- with $v.dashboards.namespace }}{{ $_ := set $metadata "namespace" . }}{{ end }}
{{- $_ := set $metadata "labels" (merge (deepCopy $v.dashboards.labels) (omit $metadata.labels "grafana_dashboard")) }}
{{- $_ := set $metadata "annotations" $v.dashboards.annotations }}
{{- end }}
{{- end }}

{{/*
Returns the ports in the addresses of the archive's store, databases, sinks and proxies, as a list in YAML.
Addresses without a port use the usual port of their scheme, which the network policy allows anyway.
*/}}
{{- define "gpuledger.archivePorts" -}}
{{- $v := .Values.archive }}
{{- $urls := list $v.store.url $v.postgresUrl $v.mysqlUrl $v.s3.url $v.s3.endpoint (printf "https://%s" $v.s3.endpoint) }}
{{- range $v.chain.publish }}{{ $urls = append $urls . }}{{ end }}
{{- range $v.extraArgs }}{{ $urls = append $urls (regexReplaceAll "^--?[^=]*=" . "") }}{{ end }}
{{- range $v.extraEnv }}{{ $urls = append $urls (default "" .value) }}{{ end }}
{{- $ports := list }}
{{- range $urls }}
{{- if regexMatch "^[a-z0-9]+://" . }}
{{- /* Several hosts are separated by commas. An IPv6 address is in brackets. */}}
{{- $hosts := regexReplaceAll "^[a-z0-9]+://([^/?#]*@)?|[/?#].*$" . "" }}
{{- range splitList "," $hosts }}
{{- with regexFind ":[0-9]+$" (regexReplaceAll "^\\[.*\\]" . "") }}{{ $ports = append $ports (trimPrefix ":" . | int) }}{{ end }}
{{- end }}
{{- /* A port may also be in the parameters of PostgreSQL and of a bucket. */}}
{{- range regexFindAll "[?&](port|endpoint)=[^&#]*" . -1 }}
{{- with regexFind "(=|:|%3[Aa])[0-9]+$" . }}{{ $ports = append $ports (regexFind "[0-9]+$" . | int) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml (uniq $ports) }}
{{- end }}

{{- define "gpuledger.change.NetworkPolicy" -}}
{{- $v := .root.Values }}
{{- $name := "kubernetes.io/metadata.name" }}
{{- range .object.spec.ingress }}{{ range .from }}{{ if .namespaceSelector }}
{{- $namespace := hasKey . "podSelector" | ternary (include "gpuledger.namespace" $.root) $v.networkPolicy.prometheusNamespace }}
{{- $_ := set .namespaceSelector "matchLabels" (dict $name $namespace) }}
{{- end }}{{ end }}{{ end }}
{{- if eq .object.metadata.name "gpuledger-sidecar" }}
{{- $plugin := include "gpuledger.devicePlugin" .root | fromYaml }}
{{- $_ := set .object.metadata "namespace" $plugin.namespace }}
{{- $_ := set .object.spec.podSelector "matchLabels" $plugin.podLabels }}
{{- else if eq .object.metadata.name "gpuledger-archive" }}
{{- $rule := first .object.spec.egress }}
{{- $open := list }}
{{- range $rule.ports }}{{ $open = append $open (int .port) }}{{ end }}
{{- range include "gpuledger.archivePorts" .root | fromYamlArray }}
{{- if not (has (int .) $open) }}{{ $_ := set $rule "ports" (append $rule.ports (dict "port" (int .))) }}{{ end }}
{{- end }}
{{- with $v.archive.web.from }}
{{- $_ := set $.object.spec "ingress" (append $.object.spec.ingress (dict "from" . "ports" (list (dict "port" 9841)))) }}
{{- end }}
{{- else if eq .object.metadata.name "gpuledger-dcgm" }}
{{- $rule := first .object.spec.egress }}
{{- $to := first $rule.to }}
{{- $_ := set $to.namespaceSelector "matchLabels" (dict $name $v.dcgm.namespace) }}
{{- $_ := set $to.podSelector "matchLabels" $v.dcgm.podLabels }}
{{- $_ := set $rule "ports" (list (dict "port" ($v.dcgm.address | regexFind "[0-9]+$" | int))) }}
{{- end }}
{{- end }}

{{/*
Changes the PodMonitors. With serviceMonitor, the exporters' PodMonitor becomes a ServiceMonitor. Its targets
are the same pods, with an additional label.
*/}}
{{- define "gpuledger.change.PodMonitor" -}}
{{- $v := .root.Values.podMonitor }}
{{- $apiVersion := $v.apiVersion }}
{{- if .root.Values.serviceMonitor.enabled }}
{{- $v = .root.Values.serviceMonitor }}
{{- $apiVersion = .object.apiVersion }}
{{- end }}
{{- $_ := set .object "apiVersion" $apiVersion }}
{{- $_ := set .object.metadata "labels" (merge .object.metadata.labels $v.additionalLabels) }}
{{- $exporters := compact (list (include "gpuledger.exporters" .root) (include "gpuledger.kept" .root)) }}
{{- if .object.spec.namespaceSelector }}
{{- $namespaces := list }}
{{- range $exporters }}{{ $namespaces = append $namespaces (splitList "/" . | first) }}{{ end }}
{{- $_ := set .object.spec.namespaceSelector "matchNames" (uniq $namespaces) }}
{{- end }}
{{- range .object.spec.podMetricsEndpoints }}
{{- $_ := set . "honorLabels" $v.honorLabels }}
{{- if ne (default "" .path) "/metrics/record" }}{{ $_ := set . "interval" $v.interval }}{{ end }}
{{- if eq .port "gpuledger" }}
{{- if ne $v.scheme "http" }}{{ $_ := set . "scheme" $v.scheme }}{{ end }}
{{- if $v.tlsConfig }}{{ $_ := set . "tlsConfig" $v.tlsConfig }}{{ end }}
{{- end }}
{{- range .relabelings }}{{ if eq (default "" .action) "keep" }}{{ $_ := set . "regex" (join "|" $exporters) }}{{ end }}{{ end }}
{{- if eq .port "gpuledger" }}{{ $_ := set . "relabelings" (concat .relabelings $v.relabelings) }}{{ end }}
{{- end }}
{{- if and $.root.Values.serviceMonitor.enabled (eq .object.metadata.name "gpuledger") }}
{{- $_ := set .object "kind" "ServiceMonitor" }}
{{- $_ := set .object.spec.selector "matchLabels" (dict "app.kubernetes.io/name" "gpuledger" "app.kubernetes.io/component" "exporter") }}
{{- range .object.spec.podMetricsEndpoints }}{{ range .relabelings }}
{{- if eq (default "" .action) "labeldrop" }}{{ $_ := set . "regex" "(pod|container|endpoint|namespace|service)" }}{{ end }}
{{- end }}{{ end }}
{{- $_ := set .object.spec "endpoints" .object.spec.podMetricsEndpoints }}
{{- $_ := unset .object.spec "podMetricsEndpoints" }}
{{- end }}
{{- end }}

{{- define "gpuledger.change.PrometheusRule" -}}
{{- $v := .root.Values.prometheusRule }}
{{- $_ := set .object.metadata "labels" (merge .object.metadata.labels $v.additionalLabels) }}
{{- range .object.spec.groups }}
{{- $rules := list }}
{{- range .rules }}
{{- if not (get $v.disabled (default "" .alert)) }}{{ $rules = append $rules . }}{{ end }}
{{- end }}
{{- $_ := set . "rules" $rules }}
{{- end }}
{{- end }}

{{/* Changes the policy that adds the sidecar, and the policy that limits the reconciler. */}}
{{- define "gpuledger.change.Policy" -}}
{{- $v := .root.Values }}
{{- if eq .object.kind "MutatingAdmissionPolicy" }}
{{- $_ := set .object "apiVersion" (include "gpuledger.policyVersion" .root) }}
{{- $selector := first .object.spec.matchConstraints.namespaceSelector.matchExpressions }}
{{- $_ := set $selector "values" (list (include "gpuledger.devicePlugin" .root | fromYaml).namespace) }}
{{- include "gpuledger.changeHost" (dict "root" .root "conditions" .object.spec.matchConditions) }}
{{- else }}
{{- $condition := first .object.spec.matchConditions }}
{{- $_ := set $condition "expression" ($condition.expression | replace "serviceaccount:gpuledger:" (printf "serviceaccount:%s:" (include "gpuledger.namespace" .root))) }}
{{- if and (eq $v.reconciler.labels.scheme "gpuid") (eq .object.metadata.name "gpuledger-reconciler") }}
{{- $prefixes := first .object.spec.variables }}
{{- $_ := set $prefixes "expression" "['gpuledger.io/', 'gpuid.github.com/']" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Selects the pods that get the sidecar. Arguments: root, conditions. */}}
{{- define "gpuledger.changeHost" -}}
{{- with .root.Values.sidecar.host }}
{{- $patch := $.root.Files.Get (printf "files/hosts/%s.yaml" .) | fromYamlArray }}
{{- $condition := index $.conditions 2 }}
{{- range $name, $value := (index $patch 1).value }}{{ $_ := set $condition $name $value }}{{ end }}
{{- end }}
{{- end }}

{{- define "gpuledger.change.MutatingWebhookConfiguration" -}}
{{- $webhook := first .object.webhooks }}
{{- $_ := set $webhook.clientConfig.service "namespace" (include "gpuledger.namespace" .root) }}
{{- $selector := first $webhook.namespaceSelector.matchExpressions }}
{{- $_ := set $selector "values" (list (include "gpuledger.devicePlugin" .root | fromYaml).namespace) }}
{{- include "gpuledger.changeHost" (dict "root" .root "conditions" $webhook.matchConditions) }}
{{- with .root.Values.sidecar.webhook.annotations }}{{ $_ := set $.object.metadata "annotations" . }}{{ end }}
{{- end }}

{{/* Adds the webhook to the reconciler. Arguments: root, pod, container, args. */}}
{{- define "gpuledger.webhookArgs" -}}
{{- $_ := set .container "ports" (append .container.ports (dict "name" "webhook" "containerPort" 9843)) }}
{{- $_ := set .container "lifecycle" (dict "preStop" (dict "sleep" (dict "seconds" 5))) }}
- --webhook.listen-address=:9843
{{- with .root.Values.sidecar.webhook.existingSecret }}
{{- $_ := set $.pod.securityContext "fsGroup" $.pod.securityContext.runAsGroup }}
{{- $volume := dict "name" "webhook" "secret" (dict "secretName" . "defaultMode" 288 "optional" true) }}
{{- $_ := set $.pod "volumes" (append (default list $.pod.volumes) $volume) }}
{{- $mount := dict "name" "webhook" "mountPath" "/etc/gpuledger/webhook" "readOnly" true }}
{{- $_ := set $.container "volumeMounts" (append (default list $.container.volumeMounts) $mount) }}
- --webhook.certificates=/etc/gpuledger/webhook
{{- end }}
{{- end }}

{{- define "gpuledger.change.MutatingAdmissionPolicyBinding" -}}
{{- $_ := set .object "apiVersion" (include "gpuledger.policyVersion" .root) }}
{{- $_ := set .object.spec.paramRef "namespace" (include "gpuledger.namespace" .root) }}
{{- end }}
