{{- define "windlass.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "windlass.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "windlass.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "windlass.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /*
The suffix is needed: Kubernetes gives pods variables for each Service, and a Service "windlass" would set WINDLASS_PORT in all
programs of the namespace.
*/ -}}
{{- define "windlass.server" -}}
{{- printf "%s-server" (include "windlass.fullname" .) -}}
{{- end -}}

{{- define "windlass.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "windlass.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "windlass.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" -}}
{{- end -}}

{{- /* Labels that select pods: they never change. Argument: the root context and the component. */ -}}
{{- define "windlass.selector" -}}
app.kubernetes.io/name: {{ include "windlass.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "windlass.labels" -}}
{{ include "windlass.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ include "windlass.chart" .root }}
{{- end -}}

{{- define "windlass.isEmbedded" -}}
{{- if not (or .Values.engine.url .Values.engine.existingSecret) -}}true{{- end -}}
{{- end -}}

{{- define "windlass.url" -}}
{{- printf "http://%s.%s.svc:%v" (include "windlass.server" .) .Release.Namespace .Values.service.port -}}
{{- end -}}

{{- /* References to the secrets, as fields of a secretKeyRef. */ -}}
{{- define "windlass.adminToken" -}}
name: {{ .Values.auth.existingSecret | default (include "windlass.fullname" .) }}
key: {{ .Values.auth.existingSecret | empty | ternary "token" .Values.auth.existingSecretKey }}
{{- end -}}

{{- define "windlass.workToken" -}}
{{- if .Values.auth.work.existingSecret -}}
name: {{ .Values.auth.work.existingSecret }}
key: {{ .Values.auth.work.key }}
{{- else -}}
{{ include "windlass.adminToken" . }}
{{- end -}}
{{- end -}}

{{- define "windlass.readToken" -}}
{{- if .Values.auth.read.existingSecret -}}
name: {{ .Values.auth.read.existingSecret }}
key: {{ .Values.auth.read.key }}
{{- else -}}
{{ include "windlass.adminToken" . }}
{{- end -}}
{{- end -}}

{{- define "windlass.engineUrl" -}}
name: {{ .Values.engine.existingSecret | default (include "windlass.fullname" .) }}
key: {{ .Values.engine.existingSecret | empty | ternary "url" .Values.engine.existingSecretKey }}
{{- end -}}

{{- /* Entries of `env` from a map of names and values. */ -}}
{{- define "windlass.env" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- /* Placement of a pod: argument is the map of values of a server or a worker. */ -}}
{{- define "windlass.placement" -}}
{{- range $field := list "nodeSelector" "tolerations" "affinity" "topologySpreadConstraints" }}
{{- with index $ $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end -}}
