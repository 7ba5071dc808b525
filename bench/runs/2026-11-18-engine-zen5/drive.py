# eng-drive.py OUT ROUNDS MS NETS CASES VARIANT...   variant = name=binary[,ENV=VAL...]
import os, subprocess, sys, time, re, statistics as st, collections, resource
out, rounds, ms, nets, cases, *variants = sys.argv[1:]
NETS={"r26":"cifar_resnet26 100 64 32","r50":"resnet50 1000 16 224","mb":"mobilenet_v2 1000 32 224","r18":"resnet18 1000 16 224","w40":"wrn_40_2 100 64 32","vit":"vit_b_16 1000 8 224"}
def stat():
    v=[int(x) for x in open('/proc/stat').readline().split()[1:]]
    return v[0]+v[1]+v[2]+v[5]+v[6], v[7]
BUSY=[sys.executable,'-c','while True: pass']
def cpu_of(p):
    f=open(f'/proc/{p.pid}/stat').read().rsplit(')',1)[1].split(); return int(f[11])+int(f[12])
rows=[]
fo=open(out,'a')
for r in range(int(rounds)):
  for net in nets.split(','):
    for case in cases.split(','):
      loads=[]
      for core in {"none":[],"core1":[1],"core0":[0],"two":[0,1],"free":[None]}[case]:
        loads.append(subprocess.Popen((['taskset','-c',str(core)] if core is not None else [])+BUSY))
      if loads: time.sleep(0.1)
      for v in variants:
        name,rest=v.split('=',1); parts=rest.split(','); env={**os.environ,**dict(x.split('=') for x in parts[1:])}
        b0,s0=stat(); l0=sum(map(cpu_of,loads)); u0=resource.getrusage(resource.RUSAGE_CHILDREN); t0=time.time()
        p=subprocess.run([parts[0],*NETS[net].split(),os.environ.get('THREADS','2'),ms],env=env,stdout=subprocess.PIPE,text=True)
        b1,s1=stat(); l1=sum(map(cpu_of,loads)); u1=resource.getrusage(resource.RUSAGE_CHILDREN); t=time.time()-t0
        own=(u1.ru_utime+u1.ru_stime-u0.ru_utime-u0.ru_stime)
        foreign=((b1-b0)/100-own-(l1-l0)/100)/t
        m=re.search(r'min ([\d.]+).*median ([\d.]+).*mean ([\d.]+) check (\w+)',p.stdout)
        line=f"{net} {case} {name} min {m[1]} median {m[2]} mean {m[3]} foreign {foreign:.2f} steal {(s1-s0)/100/t:.2f} cpu {own/t:.2f} {m[4]}"
        print(line,file=fo,flush=True); rows.append((net,case,name,float(m[1]),float(m[2]),float(m[3]),foreign))
      for l in loads: l.kill(); l.wait()
d=collections.defaultdict(list); bad=0
for net,case,name,a,b,c,f in rows:
    if f<0.06: d[net,case,name].append((a,b,c))
    else: bad+=1
for k in d: print(*k,'medians',[x[1] for x in d[k]],f'-> median {st.median(x[1] for x in d[k]):.1f} min {min(x[0] for x in d[k]):.1f} mean {st.mean(x[2] for x in d[k]):.1f}')
print('dropped for foreign load',bad,'of',len(rows))
